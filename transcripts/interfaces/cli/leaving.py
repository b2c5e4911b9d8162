"""`delete` and `forget`: a session off the disk, or out of the database for good."""

from __future__ import annotations

import sys

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.options import Settings, common, name_in_command, named, pass_settings
from transcripts.interfaces.cli.output import command, count, one_line, safe, say, size, write, write_json


@click.command()
@click.argument("session")
@common
@pass_settings
def delete(settings: Settings, session: str) -> int:
    """Delete a session's files from the disk; the database keeps all of it.

    Claude Code no longer lists it then. `restore` brings it back.

    \b
    Example:
      transcripts delete 2286290b
    """
    with settings.opened() as index:
        name, found = named(index, session)
        removed = index.delete(name)
        again = command("restore", name_in_command(found.session_id or "", found.path, index.shared_ids()))
    for path in removed:
        if settings.json:
            write_json({"path": path})
        else:
            write(safe(path))
    say(f"{count(len(removed), 'file')} deleted; kept in the database. Bring it back with: {again}")
    return 0


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
@pass_settings
def forget(settings: Settings, sessions: tuple[str, ...], yes: bool) -> int:
    """Remove sessions from the database for good: bytes, rows and search.

    There is no way back. Files that still lie on the disk stay there and are not imported again; `delete` removes them.

    \b
    Example:
      transcripts forget 2286290b --yes
    """
    with settings.opened() as index:
        found = {one.file: (name, one) for name, one in (named(index, session) for session in sessions)}.values()
        if not yes:
            settings.bar.close()
            if not sys.stdin.isatty():
                raise InvalidRequest("forgetting cannot be undone; without a terminal to ask on, say so with --yes")
            for name, _one in found:
                info = index.session(name)
                say(f"{info.id}  {one_line(info.title or '(no title)', 60)}  {size(info.size)}")
            if not click.confirm(f"Forget {count(len(found), 'session')} for good?", err=True):
                say("Nothing was forgotten.")
                return NOTHING_OR_PROBLEMS
        gone = index.forget(*(name for name, _one in found))
    if settings.json:
        for _name, one in found:
            write_json({"session": one.session_id, "path": one.path})
    say(f"Forgotten: {count(gone.files, 'file')}, {size(gone.bytes)}.")
    for _name, one in found:
        if one.state == "live":
            say(f"Left on the disk, and no longer imported: {one.path}")
    return 0
