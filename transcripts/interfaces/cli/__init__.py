"""The command line: one file a concern, each command a thin caller of Index.

Invariants:
- Data goes to standard output, everything else (messages, progress) to standard error.
- Exit codes: 0 done, 1 nothing found or problems, 2 usage, 75 database busy, 130 stopped by Ctrl-C, 141 closed pipe. They are
  chosen here, in one place; no expected error shows a traceback.
- Starting is cheap: nothing at the top of these modules loads a database or a table printer; the commands do when they run.
- What came out of a transcript reaches a terminal only through output.py, which takes its control characters away.
"""

from __future__ import annotations

import click

from transcripts.interfaces.cli.asking import list_sessions, show
from transcripts.interfaces.cli.branching import branches
from transcripts.interfaces.cli.care import rebuild, verify
from transcripts.interfaces.cli.demo import demo
from transcripts.interfaces.cli.editing import fork, tag, title, untag
from transcripts.interfaces.cli.exits import Commands
from transcripts.interfaces.cli.giving import export, restore
from transcripts.interfaces.cli.importing import sync
from transcripts.interfaces.cli.leaving import delete, forget
from transcripts.interfaces.cli.options import common
from transcripts.interfaces.cli.query import sql
from transcripts.interfaces.cli.resuming import go_on, resume
from transcripts.interfaces.cli.searching import search
from transcripts.interfaces.cli.statistics import stats


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@common
@click.version_option(package_name="transcripts", prog_name="transcripts", message="%(prog)s %(version)s")
def cli() -> None:
    """The embedded database for Claude Code transcripts.

    Every question first imports what is new. SESSION is an id, the unique beginning of one, an exact title, the path of a
    transcript, or `latest`.

    \b
    Examples:
      transcripts search delivery report
      transcripts list --since yesterday
      transcripts resume latest --last 20
      transcripts export 2286290b -o copy.jsonl
    """


for command in (
    sync, search, list_sessions, show, resume, go_on, branches, export, restore, title, tag, untag, fork, delete,
    forget, stats, sql, verify, rebuild, demo,
):  # fmt: skip
    cli.add_command(command)


def main() -> None:
    """Run the command line on the arguments of this process, and end it."""
    cli(prog_name="transcripts")
