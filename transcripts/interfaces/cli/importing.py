"""`sync`: import what is new, and say what was done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import count, home_shortened, one_line, safe, say, size, write, write_json

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.errors import Problem
    from transcripts.index.report import ImportReport

_SHOWN = 20  # problems; all of them are in `verify` and in --json


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@common
@pass_settings
def sync(settings: Settings, paths: tuple[str, ...]) -> int:
    """Import what is new.

    PATH is a config folder, a projects folder, one project, or one transcript; it is remembered. Without one: Claude Code's
    own folder (CLAUDE_CONFIG_DIR, else ~/.claude) and all that was synced before.

    \b
    Examples:
      transcripts sync
      transcripts sync ~/backup/.claude/projects
    """
    with settings.opened(fresh=False) as index:
        wanted = paths or _known(index)
        if not wanted:
            say("There is no folder of transcripts here; name one: transcripts sync PATH")
            return NOTHING_OR_PROBLEMS
        report = index.sync(wanted)
    if not report.scanned and not report.problems:
        say("No transcripts lie there.")
    if settings.json:
        write_json(report_json(report))
    else:
        write(summary(report))
        show_problems(report.problems)
    unread = any(problem.offset is None for problem in report.problems)
    return NOTHING_OR_PROBLEMS if unread or not report.scanned else 0


def _known(index: Index) -> Sequence[str]:
    """The client's folder, when it has transcripts, and the roots that lie elsewhere."""
    from transcripts.interfaces.defaults import config_folder

    projects = os.path.join(config_folder(), "projects")
    roots = index.roots()
    if not os.path.isdir(projects):
        return roots
    return [config_folder(), *(root for root in roots if root != os.path.realpath(projects))]


def summary(report: ImportReport) -> str:
    """What an import did, in one sentence."""
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (report.new, "new"),
            (report.grown, "grown"),
            (report.rewritten, "rewritten"),
            (report.moved, "moved"),
            (report.vanished, "gone"),
        )
        if number
    ]
    done = f"{size(report.bytes)} and {count(report.entries, 'entry')} imported" if report.changed else "nothing new"
    return f"{count(report.scanned, 'file')}: {', '.join([*parts, done])}."


def show_problems(problems: Sequence[Problem]) -> None:
    """The first problems, and how many more there are, beside the data."""
    for problem in problems[:_SHOWN]:
        say(f"  {problem_line(problem)}")
    if len(problems) > _SHOWN:
        say(f"  and {len(problems) - _SHOWN:,} more; all of them: transcripts verify")


def problem_line(problem: Problem) -> str:
    """A problem on one line: where, what, and the bytes in question."""
    place = home_shortened(problem.path) + ("" if problem.offset is None else f":{problem.offset}")
    return safe(f"{place}: {problem.reason}") + (f": {one_line(problem.excerpt, 60)}" if problem.excerpt else "")


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem for a program."""
    return problem._asdict()


def report_json(report: ImportReport) -> dict[str, Any]:
    """What an import did, for a program."""
    return {
        "scanned": report.scanned,
        "new": report.new,
        "grown": report.grown,
        "rewritten": report.rewritten,
        "moved": report.moved,
        "vanished": report.vanished,
        "bytes": report.bytes,
        "entries": report.entries,
        "indexed": report.indexed,
        "problems": [problem_json(problem) for problem in report.problems],
    }
