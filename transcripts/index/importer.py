"""New bytes into rows: what happens to each file that a scan found to be new or changed.

Invariants:
- The bytes that are kept, the rows made of them and the offset reached change in one transaction, begun by comparing the
  offset with the one that was read before: two importers never add the same line twice, and a kill between two
  transactions leaves an import that goes on where it stopped.
- One import, an import in any slices, and the same import again give the same content.
- A last line without its newline is imported provisionally: `imported_size` stays at its start. When the file grows, the
  line is read again; is it still the same record, its rows stay; else the file's rows are made anew from its kept bytes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from sqlalchemy import Connection, Row, Update, bindparam, delete, insert, select, update

from transcripts.files.discover import TranscriptFile, seen_again
from transcripts.files.entry import parse
from transcripts.files.reader import ReadAt, blocks, lines
from transcripts.index import archive, derive, fulltext, removal, tombstones, versions
from transcripts.index.aggregate import named_sessions, responses_of, update_copies, update_responses, update_session
from transcripts.index.apart import Apart
from transcripts.index.bulk import fetch, run, uncollected
from transcripts.index.counts import Calls, calls_before
from transcripts.index.database import Database
from transcripts.index.frames import Frame
from transcripts.index.prepare import Batch, Prepared, batches, bytes_of, prepare
from transcripts.index.report import ImportReport
from transcripts.index.rows import Rows
from transcripts.index.schema import DERIVED_VERSION, entries, files, problems
from transcripts.index.tombstones import Buried
from transcripts.index.versions import Disk, Overtaken

_REACHED = select(files.c.imported_size, files.c.kept_size).where(files.c.id == bindparam("file"))
_UNFINISHED_GONE = delete(problems).where(problems.c.file == bindparam("key"), problems.c.offset >= bindparam("since"))


@cache
def _moved_on(*names: str) -> Update:
    """Sets these columns of a file's row, when it is as it was; the key of a forgotten file is used again, so the path counts."""
    was = [files.c[name] == bindparam(f"old_{name}") for name in ("id", "path", "imported_size", "kept_size")]
    return update(files).where(*was).values({name: bindparam(name) for name in names})


Advance = Callable[[int], None]
"""Called with the number of bytes just imported."""

Also = Callable[[Connection, int], None]
"""What is done in the transaction that adds the last lines of a transcript, given by the key of its file."""


class Coming(NamedTuple):
    """A batch that is being prepared: its bytes, where it ends in the file, whether it is the last, and how to wait for it."""

    size: int
    end: int
    is_last: bool
    prepared: Callable[[], Prepared]


def _coming(apart: Apart, batch: Batch, path: str, kept: int, stands: bool, side: bool) -> Coming:
    return Coming(batch.size, batch.end, batch.is_last, apart.submit(prepare, batch, path, kept, stands, side))


class Begun(NamedTuple):
    """The first batch of a file, on its way before the file's turn comes: as the file was then."""

    seen: TranscriptFile
    batch: Coming


def begin_file(found: TranscriptFile, apart: Apart) -> Begun | None:
    """Have the beginning of a new file prepared; None where that gains nothing, or it cannot be read."""
    if not apart.processes:
        return None
    try:
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        seen = seen_again(found, os.fstat(descriptor))
        batch = next(batches(blocks(lambda offset, length: _pread(descriptor, offset, length), 0, seen.size)))
        return Begun(seen, _coming(apart, batch, found.path, 0, False, found.kind == "side"))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def import_file(
    database: Database,
    source: str,
    found: TranscriptFile,
    report: ImportReport,
    advance: Advance,
    also: Also | None = None,
    apart: Apart | None = None,
    begun: Begun | None = None,
) -> None:
    """Bring the rows of one file up to date with what stands on disk. Raises OSError when it cannot be read.

    What was `begun` is used when the file is still as it was then, and nothing of it was imported before.
    """
    descriptor = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK)
    new_before = report.new
    try:
        seen = seen_again(found, os.fstat(descriptor))
        disk = Disk(seen, lambda offset, length: _pread(descriptor, offset, length))
        first = begun if begun and begun.seen == seen else None

        def bring_up() -> None:
            row = versions.current(database, source, disk, report)
            _Import(database, row, disk, report, advance, also, apart).run(disk.read_at, disk.found.size, first)

        try:
            _until_ours(bring_up)
        except Buried:
            removal.bury_file(database, source, found)
            report.new = new_before
    finally:
        os.close(descriptor)


def derive_file(database: Database, file: int, report: ImportReport, advance: Advance, apart: Apart | None = None) -> None:
    """Make the rows of a file again from its kept bytes alone: for one that is gone, or of an older derived version."""

    def read_at(offset: int, length: int) -> bytes:
        with database.read() as connection:  # a moment each: a reader that stays keeps SQLite's log from starting anew
            return archive.Archive(connection, file).read_at(offset, length)

    def derive_rows() -> None:
        with database.read() as connection:
            row = connection.execute(select(files).where(files.c.id == file)).one_or_none()
        if row is not None:  # else it was forgotten meanwhile
            _Import(database, row, None, report, advance, apart=apart).run(read_at, row.kept_size)

    _until_ours(derive_rows)


def derive_into(scratch: Database, row: Row[Any], kept: archive.Archive, advance: Advance) -> None:
    """Make the rows of another database's file in a scratch database, from its kept bytes."""
    anew = {"imported_size": 0, "imported_lines": 0, "derived_version": -DERIVED_VERSION}
    with scratch.write() as connection:
        connection.execute(insert(files).values(**{**row._mapping, **(anew if row.kind != "side" else {})}))
        copy = connection.execute(select(files).where(files.c.id == row.id)).one()
    if row.kind != "side":
        _Import(scratch, copy, None, ImportReport(), advance).run(kept.read_at, row.kept_size)


def _until_ours(work: Callable[[], None]) -> None:
    while True:
        try:
            return work()
        except Overtaken:
            continue


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    """All of `length` bytes that there are: a single read may stop short."""
    data = os.pread(descriptor, length, offset)
    while data and len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


class _Import:
    """One file on its way into the tables, batch by batch. `disk` is None when only kept bytes are read."""

    def __init__(
        self,
        database: Database,
        row: Row[Any],
        disk: Disk | None,
        report: ImportReport,
        advance: Advance,
        also: Also | None = None,
        apart: Apart | None = None,
    ) -> None:
        self._database = database
        self._row = row
        self._disk = disk
        self._report = report
        self._advance = advance
        self._also = also
        self._apart = apart or Apart(0)

    def run(self, read_at: ReadAt, end: int, first: Begun | None = None) -> None:
        """Import what stands between the offset that was reached and `end`."""
        row = self._row
        current = abs(row.derived_version) == DERIVED_VERSION
        standing = self._provisional() if current and row.kind != "side" else []
        if not current or not _stands(standing, read_at, row.imported_size, end):
            row = self._start_again()
            standing = []
        self._counted = row.derived_version == DERIVED_VERSION  # whether the session's numbers are those of the rows so far
        self._imported, self._lines, self._kept = row.imported_size, row.imported_lines, row.kept_size
        for batch in self._batches(read_at, end, bool(standing), first):
            with uncollected(), self._database.write() as connection:
                self._write(connection, batch.prepared(), batch.is_last, bool(standing))
            standing = []
            self._advance(batch.size)

    def _batches(self, read_at: ReadAt, end: int, stands: bool, first: Begun | None) -> Iterator[Coming]:
        """The batches of the file; where there are processes, the next ones are on their way while one is written."""
        side = self._row.kind == "side"
        start, kept = self._kept if side else self._imported, self._kept
        ahead: deque[Coming] = deque()
        if first and not kept:
            ahead.append(first.batch)
            start = kept = first.batch.end
        if not (ahead and ahead[0].is_last):
            for batch in batches(blocks(read_at, start, end)):
                ahead.append(_coming(self._apart, batch, self._row.path, kept, stands, side))
                stands, kept = False, max(kept, batch.end)
                if len(ahead) > self._apart.processes:
                    yield ahead.popleft()
        yield from ahead

    def _provisional(self) -> list[Row[Any]]:
        """The entries of a last line that had no newline when it was imported."""
        if self._row.imported_size == self._row.kept_size:
            return []
        with self._database.read() as connection:
            return list(connection.execute(
                select(*entries.c["offset", "length", "crc", "standing"])
                .where(entries.c.file == self._row.id, entries.c.offset >= self._row.imported_size)
                .order_by(entries.c.offset)
            ))  # fmt: skip

    def _start_again(self) -> Row[Any]:
        """Take the file's rows away, so that all of it is derived anew."""
        row = self._row
        with self._database.write() as connection:
            versions.clear(connection, row.id)
            self._compare_and_set(
                connection,
                row.imported_size,
                row.kept_size,
                imported_size=0,
                imported_lines=0,
                derived_version=-DERIVED_VERSION,
            )
            return connection.execute(select(files).where(files.c.id == row.id)).one()

    def _write(self, connection: Connection, prepared: Prepared, is_last: bool, stands: bool) -> None:
        file, path, rows = self._row.id, self._row.path, prepared.rows
        before, kept_before, lines_before = self._imported, self._kept, self._lines
        if fetch(connection, _REACHED, file=file) != [(before, kept_before)]:  # none: it was forgotten meanwhile
            raise Overtaken
        told = rows.session_id if self._disk and self._row.session_id is None else None
        if told and tombstones.is_forgotten(connection, self._row.source, self._row.project_key, told):
            raise Buried
        self._keep(connection, prepared.frames)
        self._lines += prepared.lines
        self._imported = self._kept if self._row.kind == "side" else max(before, prepared.end)
        values: dict[str, Any] = {
            "imported_size": self._imported, "imported_lines": self._lines, "kept_size": self._kept,
            "derived_version": DERIVED_VERSION if is_last else -DERIVED_VERSION,
        }  # fmt: skip
        if self._disk:
            values |= self._disk.edges(self._kept) | (self._disk.stat() if is_last else {})
        if self._row.session_id is None and rows.session_id:
            values["session_id"] = rows.session_id
        self._compare_and_set(connection, before, kept_before, **values)
        self._report.bytes += self._kept - kept_before
        if self._row.kind == "side":
            return
        if not stands:  # an unfinished line is told of anew each time
            run(connection, _UNFINISHED_GONE, key=file, since=before)
        raising = self._counted and is_last and self._row.kind == "main"
        calls = calls_before(connection, file, rows) if raising else None
        key = derive.next_key(connection, entries, at_least=fulltext.mark(connection))
        found = derive.add(connection, file, rows, key, lines_before)
        self._report.problems += [problem._replace(path=path) for problem in found]
        self._report.entries += len(rows.entries)
        self._counted = is_last
        self._count(connection, rows, is_last, None if rows.reaches_back else calls)
        if self._also and is_last:
            self._also(connection, file)

    def _keep(self, connection: Connection, frames: list[Frame]) -> None:
        if frames:
            archive.keep(connection, self._row.id, frames)
            self._kept = frames[-1].offset + frames[-1].length
            archive.merge_tail(connection, self._row.id, self._kept)

    def _compare_and_set(self, connection: Connection, imported: int, kept: int, **values: Any) -> None:
        still = {"old_id": self._row.id, "old_path": self._row.path, "old_imported_size": imported, "old_kept_size": kept}
        if run(connection, _moved_on(*values), **still, **values) != 1:
            raise Overtaken

    def _count(self, connection: Connection, rows: Rows, is_last: bool, calls: Calls | None) -> None:
        row = self._row
        if rows.usage:
            ids = [message_id for message_id, _request in rows.usage]
            update_responses(connection, responses_of(connection, row.id, ids))
        update_copies(connection, [*rows.calls, *rows.results])
        if row.kind == "main" and row.state != "replaced":
            if row.version > 1:
                versions.take_over(connection, row)
            update_session(connection, row.id, rows, count=is_last, calls=calls)
        if rows.summaries:
            for session in named_sessions(connection, row.id):
                update_session(connection, session)
        if is_last and (row.version > 1 or row.state == "replaced"):
            versions.thin_out(connection, row)


def _stands(standing: list[Row[Any]], read_at: ReadAt, start: int, end: int) -> bool:
    """Whether the last line, imported without its newline, still holds the same records, and nothing that is a problem."""
    if not standing:
        return True
    line = next(lines(next(blocks(read_at, start, end))))
    parsed = parse(line, "")
    again = [(entry.offset, entry.length, crc32(bytes_of(entry, line)), entry.standing) for entry in parsed.entries]
    return not parsed.problems and again == [tuple(row) for row in standing]
