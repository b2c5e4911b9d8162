"""`export` and `restore`: transcripts out again, byte for byte."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import count, safe, say, size, write, write_json


@click.command()
@click.argument("session", required=False)
@click.option("-o", "--output", metavar="FILE", help="A new file; else the bytes go to standard output.")
@click.option("--with-files", metavar="DIR", help="Write it into this folder, with its sub-agents and side files.")
@click.option("--parquet", metavar="DIR", help="The tables of all sessions, as Parquet files (needs the extra: parquet).")
@click.option("--version", type=click.IntRange(min=1), help="An older version of a rewritten file; 1 is the first.")
@common
@pass_settings
def export(
    settings: Settings, session: str | None, output: str | None, with_files: str | None, parquet: str | None, version: int | None
) -> int:
    """Write a transcript as it was, byte for byte.

    Also one whose file is gone. Nothing is ever written over. A sub-agent's transcript is named by its path. With --parquet: not
    a transcript, but what stands in the database, for DuckDB, pandas and the like.

    \b
    Examples:
      transcripts export 2286290b -o copy.jsonl
      transcripts export latest --with-files backup/
      transcripts export --parquet tables/
    """
    if parquet is not None:
        if session or output or with_files or version:
            raise InvalidRequest("--parquet writes the tables of all sessions; give nothing else")
        with settings.opened() as index:
            written = index.export_parquet(parquet)
        _tell(settings, written)
        return 0
    if session is None:
        raise InvalidRequest("name a session, or give --parquet DIR")
    if output and with_files:
        raise InvalidRequest("give either -o or --with-files")
    to_stdout = not with_files and output in (None, "-")
    if to_stdout and settings.json:
        raise InvalidRequest("--json tells what was written; name a file with -o, or a folder with --with-files")
    with settings.opened() as index:
        name, _found = named(index, session)
        if to_stdout:
            settings.bar.close()
            index.export(name, sys.stdout.buffer, version=version)
            return 0
        written = index.export(name, with_files or output or "", version=version, with_files=bool(with_files))
    _tell(settings, written)
    return 0


@click.command()
@click.argument("session")
@common
@pass_settings
def restore(settings: Settings, session: str) -> int:
    """Write a deleted session back to where it lay.

    Then the client can resume it again. Its sub-agents and side files come with it. Files that still stand are left as they are.

    \b
    Example:
      transcripts restore 2286290b
    """
    with settings.opened() as index:
        name, _found = named(index, session)
        written = index.restore(name)
    _tell(settings, written)
    return 0


def _tell(settings: Settings, paths: Sequence[str]) -> None:
    """The files that were written: their paths as data, and how much it is."""
    sizes = {path: os.stat(path).st_size for path in paths}
    for path in paths:
        if settings.json:
            write_json({"path": path, "size": sizes[path]})
        else:
            write(safe(path))
    if not settings.json:
        say(f"{count(len(paths), 'file')} written, {size(sum(sizes.values()))}.")
