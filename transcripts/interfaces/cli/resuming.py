"""`resume` and `continue`: the messages that the client would go on from, to read, for a program, or in the client itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.going_on import directories_here, start_client
from transcripts.interfaces.cli.importing import show_problems
from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import (
    count,
    home_shortened,
    one_line,
    painted,
    safe,
    say,
    width,
    wrapped,
    write,
    write_json,
)
from transcripts.interfaces.cli.reading import Part, parts, role
from transcripts.interfaces.cli.times import iso, local

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.sessions.chain import Chain, ChainEntry

_INDENT = 22  # the columns of time and role
_INTERRUPTED = {
    "interrupted_prompt": "The session ends with a prompt that was not answered.",
    "interrupted_turn": "The session ends in a turn that was cut short.",
}
_STYLES: dict[str, dict[str, Any]] = {
    "thinking": {"dim": True, "italic": True},
    "call": {"fg": "yellow"},
    "result": {"dim": True},
    "error": {"fg": "red"},
    "note": {"dim": True},
}
_ROLES: dict[str, dict[str, Any]] = {
    "user": {"fg": "cyan", "bold": True},
    "assistant": {"fg": "green", "bold": True},
    "summary": {"fg": "magenta", "bold": True},
}


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `resume` and `continue` both take."""
    for decorate in (
        click.option("--fork", is_flag=True, help="With --exec: go on in a copy of the session."),
        click.option("--exec", "execute", is_flag=True, help="Go on in the client itself, in the session's directory."),
        click.option(
            "--rules", type=click.Choice(["current", "classic"]), default="current", help="Whose rules (default: current).",
        ),
        click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N messages."),
        click.option(
            "--format", type=click.Choice(["text", "uuids", "jsonl", "messages"]),
            help="text (the default), uuids, the raw records, or what would be sent to the model.",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command()
@click.argument("session")
@click.option("--leaf", metavar="UUID", help="End at this message instead of the one the client would choose (see: branches).")
@click.option("--agent", metavar="ID", help="The chain of a sub-agent of the session.")
@_options
@common
@pass_settings
def resume(settings: Settings, /, session: str, leaf: str | None, agent: str | None, **options: Any) -> int:
    """Write the messages that the client would resume, oldest first.

    `(recovered)` marks what belongs to a parallel reply and is not met on the way along the parents. With --json: one
    object a message, with its place in the file.

    \b
    Examples:
      transcripts resume latest --last 20
      transcripts resume 2286290b --format jsonl > messages.jsonl
      transcripts resume latest --exec
    """
    with settings.opened() as index:
        name, _ = named(index, session)
        return _resumed(settings, index, name, leaf, agent, **options)


@click.command("continue")
@_options
@common
@pass_settings
def go_on(settings: Settings, /, **options: Any) -> int:
    """Resume the newest session of this directory, or of another worktree of its repository.

    \b
    Examples:
      transcripts continue --last 10
      transcripts continue --exec
    """
    with settings.opened() as index:
        info = index.newest(directories_here())
        say(f"{info.id}  {one_line(info.title or '')}")
        return _resumed(settings, index, info.path, None, None, **options)


def _resumed(
    settings: Settings,
    index: Index,
    name: str,
    leaf: str | None,
    agent: str | None,
    *,
    format: str | None,
    last: int | None,
    rules: str,
    execute: bool,
    fork: bool,
) -> int:
    if settings.json and format:
        raise InvalidRequest(f"--json and --format {format} exclude each other")
    if fork and not execute:
        raise InvalidRequest("--fork goes with --exec: it is the client that forks")
    if execute:
        if format or settings.json or leaf or agent or last:
            raise InvalidRequest(
                "--exec hands the session over to the client, which chooses by itself; give it alone or with --fork"
            )
        info = index.session(name)
        settings.bar.close()
        start_client(info, fork)
    chain = index.resume(name, rules=rules, leaf=leaf, last=last, agent=agent)
    settings.bar.close()
    if settings.json:
        for entry in chain.entries:
            write_json(entry_json(entry))
    elif format == "uuids":
        for entry in chain.entries:
            write(one_line(entry.uuid))
    elif format == "jsonl":
        for record in chain.lines():
            sys.stdout.buffer.write(record + b"\n")
    elif format == "messages":
        for message in chain.messages():
            write_json(message)
    elif chain.entries:
        _print(chain)
    show_problems(chain.problems)
    if not chain.entries:
        say(f"There is no conversation to resume in {home_shortened(chain.path)}: {chain.leaf_reason}")
        return NOTHING_OR_PROBLEMS
    if chain.joins:
        say(f"{count(len(chain.joins), 'gap')} on the way, where a parent is missing.")
    if chain.interruption in _INTERRUPTED:
        say(_INTERRUPTED[chain.interruption])
    return 0


def entry_json(entry: ChainEntry) -> dict[str, Any]:
    """A message of a chain for a program."""
    return {
        "uuid": entry.uuid,
        "parent_uuid": entry.parent_uuid,
        "type": entry.type,
        "subtype": entry.subtype,
        "timestamp": entry.timestamp,
        "timestamp_iso": iso(entry.timestamp),
        "message_id": entry.message_id,
        "recovered": entry.recovered,
        "usage": entry.usage._asdict() if entry.usage else None,
        "offset": entry.place.offset,
        "length": entry.place.length,
    }


def _print(chain: Chain) -> None:
    from transcripts.files.entry import load

    day: date | None = None
    calls: dict[str, str] = {}
    for entry, data in zip(chain.entries, chain.lines(), strict=True):
        moment = local(entry.timestamp)
        if moment and moment.date() != day:
            day = moment.date()
            write(painted(f"{day:%A %Y-%m-%d}", bold=True))
        record = load(data)
        clock = f"{moment:%H:%M:%S}" if moment else " " * 8
        said = list(parts(record, calls)) or [Part("note", "(nothing to read)")]
        _print_entry(clock, role(record), said, entry.recovered)


def _print_entry(clock: str, who: str, said: list[Part], recovered: bool) -> None:
    speaker = painted(one_line(who).ljust(10), **_ROLES.get(who, {"dim": True}))
    head = f"{painted(clock, dim=True)}  {speaker}  "
    for number, part in enumerate(said):
        mark = "(recovered) " if recovered and number == 0 else ""
        mark += "(thinking) " if part.kind == "thinking" else ""
        for line in safe(mark + part.text.strip("\n")).expandtabs(4).split("\n"):
            for piece in wrapped(line.rstrip(), max(20, width() - _INDENT)):
                write((head + painted(piece, **_STYLES.get(part.kind, {}))).rstrip())
                head = " " * _INDENT
