"""Is the database what the kept bytes say? Everything is made again and compared; and what is wrong in the files is named.

Invariants:
- `damage` re-derives: each chunk is read and its digest compared, the rows of all files are made again in a scratch
  database and compared with those that stand, and the search index is compared with the texts. Empty means that all agree.
- `faults` tells what is wrong in the data itself: recorded problems, parents that are missing, lines that are not whole.
- A file of which an import is under way, or was stopped, is named and not compared: the next sync goes on with it.
- `verify` changes nothing. `rebuild` makes everything derived anew, and never touches what is kept.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, select, update

from transcripts.errors import ChunkDamaged, Problem
from transcripts.index import archive, fulltext
from transcripts.index.apart import Apart
from transcripts.index.content import content, differences, totals
from transcripts.index.database import Database
from transcripts.index.frames import digest
from transcripts.index.importer import derive_file, derive_into
from transcripts.index.report import ImportReport, Meter, Progress
from transcripts.index.schema import (
    DERIVED,
    DERIVED_VERSION,
    chunks,
    entries,
    file_chunks,
    files,
    messages,
    problems,
    projects,
    responses,
)
from transcripts.index.settings import copy_prices
from transcripts.index.versions import edges

_NAMED = 200  # records that a damaged search index is told by; the others are counted


def damage(database: Database, progress: Callable[[Progress], None] | None = None) -> list[Problem]:
    """What the database says otherwise than its kept bytes; empty means good. Cost: that of a rebuild."""
    found: list[Problem] = []
    with database.read() as connection, tempfile.TemporaryDirectory(prefix="transcripts-") as folder:
        scratch = Database(os.path.join(folder, "scratch.db"))
        try:
            rows = connection.execute(select(files).order_by(files.c.id)).all()
            meter = Meter(progress, sum(row.kept_size for row in rows))
            unfinished = {row.path for row in rows if row.derived_version != DERIVED_VERSION}
            found += [Problem(path, "its import is not finished; run: transcripts sync") for path in sorted(unfinished)]
            whole = []
            with scratch.write() as other:
                copy_prices(connection, other)
            for row in rows:
                meter.path = row.path
                if faults := _damaged_chunks(connection, row):
                    found += faults
                    continue
                derive_into(scratch, row, archive.Archive(connection, row.id), meter)
                whole.append(row)
            found += _unused_chunks(connection)
            with scratch.read() as derived:
                for row in whole:
                    if row.path in unfinished:
                        continue
                    anew = derived.execute(select(files).where(files.c.id == row.id)).one()
                    found += [
                        Problem(row.path, f"{name} is {row._mapping[name]}, by the bytes {anew._mapping[name]}")
                        for name in ("imported_size", "imported_lines")
                        if row._mapping[name] != anew._mapping[name]
                    ]
                    for table, place, fault in differences(content(connection, row.id), content(derived, row.id)):
                        offset = place[0] if place and isinstance(place[0], int) else None
                        found.append(Problem(row.path, f"table {table}, {' '.join(map(str, place))}: {fault}", offset))
                if len(whole) == len(rows) and not unfinished:
                    for table, place, fault in differences(totals(connection), totals(derived)):
                        found.append(Problem(database.path, f"table {table}, {' '.join(map(str, place))}: {fault}"))
        finally:
            scratch.close()
    return found + _damaged_search(database)


def faults(database: Database) -> list[Problem]:
    """What is wrong in the files themselves, in order of file and place."""
    with database.read() as connection:
        found = [
            Problem(row.path, row.reason, row.offset, row.length, row.excerpt)
            for row in connection.execute(
                select(problems, files.c.path)
                .join(files, files.c.id == problems.c.file)
                .where(files.c.state != "replaced")
                .order_by(files.c.path, problems.c.offset, problems.c.id)
            )
        ]
        parent = messages.alias()
        missing = (
            select(files.c.path, messages.c.offset, messages.c.parent_uuid)
            .join(files, files.c.id == messages.c.file)
            .where(
                messages.c.parent.is_not(None),
                files.c.state != "replaced",
                ~exists().where(parent.c.node == messages.c.parent),
            )
            .order_by(files.c.path, messages.c.offset)
        )
        for path, offset, uuid in connection.execute(missing):
            found.append(Problem(path, "a parent that is not in the file", offset, None, uuid or ""))
    return found


def rebuild(database: Database, progress: Callable[[Progress], None] | None = None) -> ImportReport:
    """Make everything that is derived anew from the kept bytes. Stopped anywhere, the next sync goes on with it."""
    report = ImportReport()
    with database.write() as connection:
        for table in (*DERIVED, responses, projects):
            connection.execute(delete(table))
        if database.is_sqlite:
            fulltext.reset(connection)
        anew = {"imported_size": 0, "imported_lines": 0, "derived_version": -DERIVED_VERSION}
        connection.execute(update(files).where(files.c.kind != "side").values(**anew))
        rows = connection.execute(
            select(*files.c["id", "path", "kept_size"]).where(files.c.kind != "side").order_by(files.c.id)
        ).all()
    meter = Meter(progress, sum(row.kept_size for row in rows))
    with Apart(sum(row.kept_size for row in rows)) as apart:
        for row in rows:
            meter.path = row.path
            try:
                derive_file(database, row.id, report, meter, apart)
            except ChunkDamaged as error:
                report.problems.append(Problem(row.path, str(error)))
    if database.is_sqlite:
        report.indexed = fulltext.drain(database, progress=progress)
    return report


def _damaged_chunks(connection: Connection, row: Row[Any]) -> list[Problem]:
    found: list[Problem] = []
    kept = archive.Archive(connection, row.id)
    at = 0
    for part in archive.listed(connection, row.id):
        if part.offset != at:
            found.append(Problem(row.path, f"chunks: bytes are missing before {part.offset}", at))
        at = part.offset + part.length
        try:
            data = kept.read_at(part.offset, part.length)
        except ChunkDamaged as error:
            found.append(Problem(row.path, str(error).partition(";")[0], part.offset, part.length))
            continue
        if digest(data) != part.digest or len(data) != part.length:
            found.append(
                Problem(row.path, f"chunk {part.chunk} holds other bytes than its digest says", part.offset, part.length)
            )
    if at != row.kept_size:
        found.append(Problem(row.path, f"chunks: {at} bytes are there, {row.kept_size} were kept", at))
    digests = {"head_digest": row.head_digest, "tail_digest": row.tail_digest}
    if not found and row.head_digest is not None and edges(kept.read_at, row.kept_size) != digests:
        found.append(Problem(row.path, "chunks: they hold other bytes than the file had", 0, row.kept_size))
    return found


def _unused_chunks(connection: Connection) -> list[Problem]:
    unused = select(chunks.c.id).where(~exists().where(file_chunks.c.chunk == chunks.c.id)).order_by(chunks.c.id)
    return [Problem("", f"chunk {key} belongs to no file") for key in connection.scalars(unused)]


def _damaged_search(database: Database) -> list[Problem]:
    if not database.is_sqlite:
        return []
    with database.write() as connection:
        keys = fulltext.compare(connection) or fulltext.misplaced(connection)
    named = keys[:_NAMED]
    with database.read() as connection:
        places = {
            key: (path, offset, length)
            for key, path, offset, length in connection.execute(
                select(entries.c.id, files.c.path, entries.c.offset, entries.c.length)
                .join(files, files.c.id == entries.c.file)
                .where(entries.c.id.in_(named))
            )
        }
    fault = "search: the index disagrees with the text"
    found = [
        Problem(places[key][0], fault, *places[key][1:]) if key in places else Problem(database.path, fault) for key in named
    ]
    more = len(keys) - len(named)
    return [*found, Problem(database.path, f"{fault} of {more} more records")] if more else found
