"""`title`, `tag`, `untag` and `fork`: a line appended to a transcript, or a new one beside it."""

from __future__ import annotations

import click

from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import one_line, say, write, write_json


@click.command()
@click.argument("session")
@click.argument("title")
@common
@pass_settings
def title(settings: Settings, session: str, title: str) -> int:
    """Give a session a title.

    A line is appended to its transcript, as Claude Code's /rename does: both show the title from then on.

    \b
    Example:
      transcripts title 2286290b "Monday report, fixed"
    """
    with settings.opened() as index:
        name, found = named(index, session)
        index.rename(name, title)
        info = index.session(found.path)
    if settings.json:
        write_json({"session": info.id, "title": info.title, "path": info.path})
    else:
        say(f"{info.id} is called: {one_line(info.title or '')}")
    return 0


@click.command()
@click.argument("session")
@click.argument("tag")
@common
@pass_settings
def tag(settings: Settings, session: str, tag: str) -> int:
    """Give a session its tag, in place of the one it has.

    `list --tag` finds it. Invisible characters are left out.

    \b
    Example:
      transcripts tag 2286290b reports
    """
    return _tagged(settings, session, tag)


@click.command()
@click.argument("session")
@common
@pass_settings
def untag(settings: Settings, session: str) -> int:
    """Take a session's tag away.

    \b
    Example:
      transcripts untag 2286290b
    """
    return _tagged(settings, session, None)


def _tagged(settings: Settings, session: str, tag: str | None) -> int:
    with settings.opened() as index:
        name, found = named(index, session)
        if tag is None:
            index.untag(name)
        else:
            index.tag(name, tag)
        info = index.session(found.path)
    if settings.json:
        write_json({"session": info.id, "tag": info.tag, "path": info.path})
    else:
        say(f"{info.id} is tagged: {one_line(info.tag)}" if info.tag else f"{info.id} has no tag")
    return 0


@click.command()
@click.argument("session")
@click.option("--at", "up_to", metavar="UUID", help="Take only what leads to this message: see branches.")
@click.option("--title", metavar="TEXT", help="The title of the fork.")
@click.option("--new-uuids", is_flag=True, help="Take all branches and give each message a new uuid, as the Agent SDK does.")
@common
@pass_settings
def fork(settings: Settings, session: str, up_to: str | None, title: str | None, new_uuids: bool) -> int:
    """Copy a session into a new one beside it, and write the id of that.

    The copy holds the messages that would be resumed, as with Claude Code's --fork-session. The session itself stays as it is;
    one whose file is gone can be forked too.

    \b
    Examples:
      transcripts fork latest --title "Another way"
      transcripts fork 2286290b --new-uuids --at 9f4c2b7e-...
    """
    with settings.opened() as index:
        name, found = named(index, session)
        new = index.fork(name, way="sdk" if new_uuids else "client", up_to=up_to, title=title)
        made = index.session(new)
    if settings.json:
        write_json({"session": new, "forked_from": found.session_id, "title": made.title, "path": made.path})
    else:
        write(new)
        say(f"Forked: {one_line(made.path)}")
    return 0
