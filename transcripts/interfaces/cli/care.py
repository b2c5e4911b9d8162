"""`verify` and `rebuild`: is the database what the files were, and make it so."""

from __future__ import annotations

import click

from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.importing import problem_json, problem_line, report_json, show_problems
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import count, size, write, write_json


@click.command()
@common
@pass_settings
def verify(settings: Settings) -> int:
    """Compare the database with the bytes it keeps.

    What is damaged in the files themselves is named too. Ends with 1 when anything is wrong, in the database or in a file.

    \b
    Examples:
      transcripts verify
      transcripts verify --json --no-sync
    """
    with settings.opened() as index:
        if not settings.no_sync:
            index.sync()
        damage = index.damage()
        faults = index.faults()
    if settings.json:
        for kind, problems in (("database", damage), ("file", faults)):
            for problem in problems:
                write_json({"kind": kind, **problem_json(problem)})
        return NOTHING_OR_PROBLEMS if damage or faults else 0
    write(f"Database: {_found(len(damage))}" + ("" if not damage else "; mend what is derived with: transcripts rebuild"))
    for problem in damage:
        write(f"  {problem_line(problem)}")
    write(f"Files: {_found(len(faults))}" + ("" if not faults else " (kept and exported as they are)"))
    for problem in faults:
        write(f"  {problem_line(problem)}")
    return NOTHING_OR_PROBLEMS if damage or faults else 0


def _found(number: int) -> str:
    return count(number, "problem") if number else "sound"


@click.command()
@common
@pass_settings
def rebuild(settings: Settings) -> int:
    """Make everything that is derived anew from the kept bytes.

    Needed only when `verify` finds the database damaged. Stopped anywhere, the next sync goes on with it.

    \b
    Example:
      transcripts rebuild
    """
    with settings.opened(fresh=False) as index:
        report = index.rebuild()
    if settings.json:
        write_json(report_json(report))
    else:
        write(f"Made anew from {size(report.bytes)}: {count(report.entries, 'entry')}.")
        show_problems(report.problems)
    return 0
