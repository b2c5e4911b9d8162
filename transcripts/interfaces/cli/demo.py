"""`demo`: the main job once through, on the user's own transcripts, else on a small made-up sample.

Invariants:
- Made-up sessions never get into the user's database: the sample goes into one of its own, which is removed at the end.
- Each command is shown as it would be typed, then run by the same code as if it had been.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.asking import id_length
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import say, write, write_json

if TYPE_CHECKING:
    from transcripts.sessions.catalog import SessionInfo

_QUERY = "SELECT name, count(*) AS calls, sum(is_error) AS failed FROM tool_calls GROUP BY name ORDER BY calls DESC LIMIT 5"
_WORDS = re.compile(r"[^\W\d_]{4,}")
_IN_THE_SAMPLE = "2286290b"  # three tool calls in one reply


@dataclass
class _Show:
    """Runs commands on one database and shows them; `failed` tells whether any ended badly."""

    group: click.Command
    db: str | None
    json: bool
    failed: bool = field(default=False)

    def run(self, *arguments: str) -> None:
        """Show a command, and run it."""
        given = [*arguments, "--json"] if self.json else list(arguments)
        typed = shlex.join(["transcripts", *given])
        where = ["--db", self.db] if self.db else []
        caught = io.StringIO()
        if not self.json:
            write(click.style(f"$ {typed}", bold=True) if sys.stdout.isatty() else f"$ {typed}")
            sys.stdout.flush()
        with contextlib.redirect_stdout(caught) if self.json else contextlib.nullcontext():
            code = self.group.main([*where, *given], prog_name="transcripts", standalone_mode=False)
        self.failed = self.failed or bool(code)
        if self.json:
            write_json({"command": typed, "exit_code": code or 0, "output": caught.getvalue()})
        else:
            write()


@click.command()
@common
@pass_settings
@click.pass_context
def demo(context: click.Context, settings: Settings) -> int:
    """Run the main commands once, to see them work.

    Imports, lists, searches, resumes, exports and queries. Takes your own transcripts (they are only read) and your database when
    there are any, else a small made-up sample and a database that is removed afterwards.

    \b
    Example:
      transcripts demo
    """
    group = context.find_root().command
    with tempfile.TemporaryDirectory(prefix="transcripts-demo-") as folder:
        if _own_transcripts():
            show = _Show(group, settings.db, settings.json)
            show.run("sync")
            if infos := _sessions(settings.db):
                return _tour(show, infos, max(infos[:10], key=lambda info: info.tool_call_count), folder)
        say("No transcripts of yours were found: this is a made-up sample, in a database that is removed at the end.")
        with as_file(files("transcripts") / "sample") as sample:
            db = os.path.join(folder, "sample.db")
            show = _Show(group, db, settings.json)
            show.run("sync", str(sample))
            infos = _sessions(db)
            return _tour(show, infos, next(info for info in infos if info.id.startswith(_IN_THE_SAMPLE)), folder)


def _own_transcripts() -> bool:
    from transcripts.interfaces.defaults import config_folder

    return any(glob.iglob(os.path.join(glob.escape(config_folder()), "projects", "*", "*.jsonl")))


def _sessions(db: str | None) -> list[SessionInfo]:
    from transcripts.interfaces import defaults

    with defaults.open(db, fresh=False) as index:
        return index.sessions(empty=False)


def _tour(show: _Show, infos: list[SessionInfo], chosen: SessionInfo, folder: str) -> int:
    """List, search, resume, export and query."""
    name = chosen.id[: id_length(infos)]
    copy = os.path.join(folder, "copy.jsonl")
    show.run("list", "--limit", "10")
    if word := _word(show.db, chosen):
        show.run("search", word, "--limit", "3")
    show.run("resume", name, "--last", "12")
    show.run("export", name, "-o", copy)
    equal = os.path.exists(copy) and _compare(chosen, copy, show.json)
    show.run("sql", _QUERY)
    return NOTHING_OR_PROBLEMS if show.failed or not equal else 0


def _word(db: str | None, chosen: SessionInfo) -> str | None:
    """A word of a session that a search finds: the longest of its title that can be looked up."""
    from transcripts.interfaces import defaults

    with defaults.open(db, fresh=False) as index, contextlib.suppress(InvalidRequest):  # PostgreSQL has no search
        words = sorted(_WORDS.findall(chosen.title or ""), key=len, reverse=True)
        return next((word for word in words if index.search(word, limit=1).hits), None)
    return None


def _compare(chosen: SessionInfo, copy: str, json: bool) -> bool:
    """Whether the export is the file's bytes, up to where they were imported; says so with both digests."""
    with open(copy, "rb") as exported:
        data = exported.read()
    digests = {"export": hashlib.sha256(data).hexdigest()}
    with contextlib.suppress(OSError), open(chosen.path, "rb") as original:
        digests["file"] = hashlib.sha256(original.read(len(data))).hexdigest()
    equal = len(set(digests.values())) == 1
    if json:
        write_json({"bytes": len(data), "equal": equal, **{f"sha256_{name}": value for name, value in digests.items()}})
        return equal
    for name, digest in digests.items():
        write(f"sha256 {digest}  {name}")
    write(f"{len(data):,} bytes, {'equal' if equal else 'NOT EQUAL'}.\n")
    return equal
