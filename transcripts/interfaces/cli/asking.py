"""`list` and `show`: which sessions there are, and the facts about one."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from transcripts.interfaces.cli import times
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.importing import problem_json, problem_line
from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import (
    count,
    cut,
    home_shortened,
    one_line,
    painted,
    safe,
    say,
    size,
    width,
    write,
    write_json,
)
from transcripts.interfaces.cli.times import iso, short

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.sessions.catalog import SessionInfo, Transcript

_ON_A_TERMINAL = 30
_SHORT_ID = 8
_NARROW = 100  # columns below which times are short


@click.command("list")
@click.option("--project", metavar="TEXT", help="Only projects whose path has this in it, or whose folder is called so.")
@click.option("--tag", metavar="TAG", help="Only sessions with this tag.")
@click.option(
    "--since", callback=times.since, metavar="TIME", help="Only sessions with a message since then: 7d, yesterday, 2026-03-09."
)
@click.option("--until", callback=times.until, metavar="TIME", help="Only sessions whose last message is not later.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many; 0 is all (30 on a terminal, else all).")
@click.option("--all", "empty", is_flag=True, help="Also sessions without a message.")
@common
@pass_settings
def list_sessions(
    settings: Settings,
    project: str | None,
    tag: str | None,
    since: int | None,
    until: int | None,
    limit: int | None,
    empty: bool,
) -> int:
    """List the sessions, those with the newest message first.

    Times and days are local. In the notes, `gone` means that the file is no longer there (the database still has it), and
    `!3` that it has three damaged places.

    \b
    Examples:
      transcripts list --since 7d --project orchard
      transcripts list --json --limit 5
    """
    with settings.opened() as index:
        found = index.sessions(project=project, tag=tag, since=since, until=until, empty=empty)
    if limit is None and sys.stdout.isatty() and not settings.json:
        limit = _ON_A_TERMINAL
    shown = found[: limit or None]
    if settings.json:
        for info in shown:
            write_json(session_json(info))
    elif shown:
        _print_table(shown, id_length(found))
        if len(shown) < len(found):
            say(f"{len(shown)} of {len(found):,} sessions; all of them: --limit 0")
    if not found:
        say(
            "No session matches." if any((project, tag, since, until)) else "There are no sessions; import some: transcripts sync"
        )
    return 0 if found else NOTHING_OR_PROBLEMS


def id_length(infos: Sequence[SessionInfo]) -> int:
    """How much of the ids tells them apart."""
    ids = {info.id for info in infos}
    longest = max(map(len, ids), default=0)
    return next((n for n in range(_SHORT_ID, longest) if len({one[:n] for one in ids}) == len(ids)), max(longest, _SHORT_ID))


def _print_table(infos: Sequence[SessionInfo], id_length: int) -> None:
    from rich.cells import cell_len, set_cell_size

    room = width()
    narrow = room < _NARROW
    rows = [("Session", "Last message", "Project", "Msgs", "Notes", "Title")]
    rows += [
        (
            one_line(info.id[:id_length]),
            times.short(info.last_activity_at, narrow),
            _path_tail(one_line(home_shortened(info.project)), max(12, room // 5)),
            f"{info.message_count:,}",
            _notes(info),
            one_line(info.title or "(no title)") + (f"  #{one_line(info.tag)}" if info.tag else ""),
        )
        for info in infos
    ]
    columns = [0, 1, 2, 3, 4] if any(row[4] for row in rows[1:]) else [0, 1, 2, 3]
    widest = {column: max(cell_len(row[column]) for row in rows) for column in columns}
    for number, row in enumerate(rows):
        cells = [row[3].rjust(widest[3]) if column == 3 else set_cell_size(row[column], widest[column]) for column in columns]
        start, name = "  ".join(cells) + "  ", len(cells[0])
        title = cut(row[5], max(10, room - cell_len(start)))
        if number == 0:
            write(painted(start + title, bold=True))
        else:
            write(painted(start[:name], fg="cyan") + start[name:] + title)


def _path_tail(path: str, cells: int) -> str:
    """The end of a path that fits, cut between two names where it can be."""
    from rich.cells import cell_len

    tail = path
    while cell_len(tail) > cells:
        rest = tail.removeprefix("…/").partition("/")[2]
        tail = f"…/{rest}" if rest else cut(tail, cells)
    return tail


def _notes(info: SessionInfo) -> str:
    damaged = info.problem_count + info.missing_parent_count
    return " ".join(([] if info.state == "live" else [info.state]) + ([f"!{damaged}"] if damaged else []))


def session_json(info: SessionInfo) -> dict[str, Any]:
    """A session for a program."""
    value = dataclasses.asdict(info)
    value["created_at_iso"] = iso(info.created_at)
    value["last_activity_at_iso"] = iso(info.last_activity_at)
    return value


# -- one session -----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("session")
@common
@pass_settings
def show(settings: Settings, session: str) -> int:
    """Show the facts about one session.

    Its sub-agents and its damaged places are named too.

    \b
    Examples:
      transcripts show latest
      transcripts show 2286290b --json
    """
    with settings.opened() as index:
        name, found = named(index, session)
        info = index.session(name)
        problems = index.problems(name)
        agents = _agents(index, found)
    if settings.json:
        write_json({
            **session_json(info),
            "agents": [{"agent_id": agent, "path": path} for agent, path in agents],
            "problems": [problem_json(problem) for problem in problems],
        })  # fmt: skip
        return 0
    write(one_line(info.title or "(no title)"))
    for label, text in _facts(info):
        write(f"  {label:<13} {one_line(text)}")
    for agent, path in agents:
        write(f"  {'sub-agent':<13} {one_line(agent)}  {safe(home_shortened(path))}")
    for problem in problems:
        write(f"  {'problem':<13} {problem_line(problem)}")
    return 0


def _facts(info: SessionInfo) -> list[tuple[str, str]]:
    messages = f"{count(info.message_count, 'message')}, {count(info.prompt_count, 'prompt')}"
    calls = count(info.tool_call_count, "call") + (f", {info.unanswered_count:,} unanswered" if info.unanswered_count else "")
    facts = [
        ("session", info.id),
        ("title from", info.title_kind or ""),
        ("tag", info.tag or ""),
        ("project", home_shortened(info.project)),
        ("branch", info.git_branch or ""),
        ("created", short(info.created_at)),
        ("last message", short(info.last_activity_at)),
        ("conversation", messages),
        ("tool calls", calls),
        ("compacted", count(info.compaction_count, "time") if info.compaction_count else ""),
        ("models", ", ".join(info.models)),
        ("client", info.version or ""),
        ("file", home_shortened(info.path)),
        ("file is", info.state + (f", version {info.versions}" if info.versions > 1 else "")),
        ("size", f"{size(info.size)}, {count(info.entry_count, 'entry')}"),
        ("unfinished", f"the last {count(info.unfinished, 'byte')} are no whole line" if info.unfinished else ""),
        ("orphans", f"{count(info.missing_parent_count, 'parent')} missing" if info.missing_parent_count else ""),
    ]
    return [(label, text) for label, text in facts if text]


def _agents(index: Index, found: Transcript) -> list[tuple[str, str]]:
    """The sub-agents' transcripts of a session: id and path, in order of their paths."""
    result = index.sql(
        "SELECT source, project_key, session_id, agent_id, path FROM files"
        " WHERE kind = 'agent' AND state <> 'replaced' ORDER BY path"
    )
    wanted = (found.source, found.project_key, found.session_id)
    return [(agent or "", path) for *whose, agent, path in result.rows if tuple(whose) == wanted]
