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
from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select, update

from transcripts.files.discover import TranscriptFile, seen_again
from transcripts.files.entry import Entry, parse
from transcripts.files.reader import Block, Line, ReadAt, blocks, lines
from transcripts.index import archive, derive, fulltext, removal, tombstones, versions
from transcripts.index.aggregate import named_sessions, responses_of, update_copies, update_responses, update_session
from transcripts.index.counts import Calls, calls_before
from transcripts.index.database import Database
from transcripts.index.report import ImportReport
from transcripts.index.rows import Rows
from transcripts.index.schema import DERIVED_VERSION, entries, files, problems
from transcripts.index.tombstones import Buried
from transcripts.index.versions import Disk, Overtaken

BATCH_BYTES = 4 * 1024 * 1024  # a transaction: about a tenth of a second
_UNFINISHED = "unfinished line"
_REACHED = select(files.c.imported_size, files.c.kept_size).where(files.c.id == bindparam("file"))
_UNFINISHED_GONE = delete(problems).where(problems.c.file == bindparam("key"), problems.c.offset >= bindparam("since"))

Advance = Callable[[int], None]
"""Called with the number of bytes just imported."""

Also = Callable[[Connection, int], None]
"""What is done in the transaction that adds the last lines of a transcript, given by the key of its file."""


def import_file(
    database: Database, source: str, found: TranscriptFile, report: ImportReport, advance: Advance, also: Also | None = None
) -> None:
    """Bring the rows of one file up to date with what stands on disk. Raises OSError when it cannot be read."""
    descriptor = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK)
    new_before = report.new
    try:
        seen = seen_again(found, os.fstat(descriptor))
        disk = Disk(seen, lambda offset, length: _pread(descriptor, offset, length))

        def bring_up() -> None:
            row = versions.current(database, source, disk, report)
            _Import(database, row, disk, report, advance, also).run(disk.read_at, disk.found.size)

        try:
            _until_ours(bring_up)
        except Buried:
            removal.bury_file(database, source, found)
            report.new = new_before
    finally:
        os.close(descriptor)


def derive_file(database: Database, file: int, report: ImportReport, advance: Advance) -> None:
    """Make the rows of a file again from its kept bytes alone: for one that is gone, or of an older derived version."""

    def read_at(offset: int, length: int) -> bytes:
        with database.read() as connection:  # a moment each: a reader that stays keeps SQLite's log from starting anew
            return archive.Archive(connection, file).read_at(offset, length)

    def derive_rows() -> None:
        with database.read() as connection:
            row = connection.execute(select(files).where(files.c.id == file)).one_or_none()
        if row is not None:  # else it was forgotten meanwhile
            _Import(database, row, None, report, advance).run(read_at, row.kept_size)

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
    ) -> None:
        self._database = database
        self._row = row
        self._disk = disk
        self._report = report
        self._advance = advance
        self._also = also

    def run(self, read_at: ReadAt, end: int) -> None:
        """Import what stands between the offset that was reached and `end`."""
        row = self._row
        current = abs(row.derived_version) == DERIVED_VERSION
        standing = self._provisional() if current and row.kind != "side" else []
        if not current or not _stands(standing, read_at, row.imported_size, end):
            row = self._start_again()
            standing = []
        self._counted = row.derived_version == DERIVED_VERSION  # whether the session's numbers are those of the rows so far
        self._imported, self._lines, self._kept = row.imported_size, row.imported_lines, row.kept_size
        for some, is_last in _batches(blocks(read_at, self._imported if row.kind != "side" else self._kept, end)):
            with self._database.write() as connection:
                self._write(connection, some, is_last, bool(standing))
            standing = []
            self._advance(sum(len(block.data) for block in some))

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

    def _write(self, connection: Connection, some: list[Block], is_last: bool, stands: bool) -> None:
        file, path = self._row.id, self._row.path
        before, kept_before = self._imported, self._kept
        reached = connection.execute(_REACHED, {"file": file}).one_or_none()
        if reached != (before, kept_before):  # None: it was forgotten meanwhile
            raise Overtaken
        rows = Rows()
        if self._row.kind == "side":
            self._imported = some[-1].offset + len(some[-1].data) if some else self._kept
        else:
            self._read_lines(connection, rows, some, stands)
        told = rows.session_id if self._disk and self._row.session_id is None else None
        if told and tombstones.is_forgotten(connection, self._row.source, self._row.project_key, told):
            raise Buried
        self._keep(connection, some)
        values: dict[str, Any] = {
            "imported_size": self._imported, "imported_lines": self._lines, "kept_size": self._kept,
            "derived_version": DERIVED_VERSION if is_last else -DERIVED_VERSION,
        }  # fmt: skip
        if self._disk:
            values |= self._disk.edges(self._kept) | (self._disk.stat() if is_last else {})
        if self._row.session_id is None and rows.session_id:
            values["session_id"] = rows.session_id
        self._compare_and_set(connection, before, kept_before, **values)
        if self._row.kind == "side":
            return
        if not stands:  # an unfinished line is told of anew each time
            connection.execute(_UNFINISHED_GONE, {"key": file, "since": before})
        raising = self._counted and is_last and self._row.kind == "main"
        calls = calls_before(connection, file, rows) if raising else None
        found = derive.add(connection, file, rows)
        self._report.problems += [problem._replace(path=path) for problem in found]
        self._report.entries += len(rows.entries)
        self._counted = is_last
        self._count(connection, rows, is_last, None if rows.reaches_back else calls)
        if self._also and is_last:
            self._also(connection, file)

    def _read_lines(self, connection: Connection, rows: Rows, some: list[Block], stands: bool) -> None:
        """Parse the lines of a batch; `stands`: the rows of the first line are there already."""
        key = derive.next_key(connection, entries, at_least=fulltext.mark(connection))
        for block in some:
            for line in lines(block):
                if stands:
                    stands = False
                else:
                    key = self._read_line(rows, line, key)
                if line.complete:
                    self._lines += 1
                    self._imported = line.offset + len(line.data) + 1

    def _read_line(self, rows: Rows, line: Line, key: int) -> int:
        parsed = parse(line, self._row.path)
        for entry in parsed.entries:
            rows.add(key, self._lines + 1, entry, _bytes_of(entry, line))
            key += 1
        if parsed.entries or line.complete:
            rows.problems += parsed.problems
        elif parsed.problems:
            rows.problems.append(parsed.problems[-1]._replace(reason=_UNFINISHED))
        if not parsed.entries and line.complete:
            rows.add_blank(key, self._lines + 1, line.offset, line.data)
            key += 1
        return key

    def _keep(self, connection: Connection, some: list[Block]) -> None:
        fresh = [
            (max(offset, self._kept), data[max(0, self._kept - offset) :])
            for offset, data in some
            if offset + len(data) > self._kept
        ]
        if fresh:
            archive.keep(connection, self._row.id, fresh)
            self._kept = fresh[-1][0] + len(fresh[-1][1])
            archive.merge_tail(connection, self._row.id, self._kept)
            self._report.bytes += sum(len(data) for _offset, data in fresh)

    def _compare_and_set(self, connection: Connection, imported: int, kept: int, **values: Any) -> None:
        same = and_(files.c.id == self._row.id, files.c.path == self._row.path)  # the key of a forgotten file is used again
        still = and_(same, files.c.imported_size == imported, files.c.kept_size == kept)
        if connection.execute(update(files).where(still).values(**values)).rowcount != 1:
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
    again = [(entry.offset, entry.length, crc32(_bytes_of(entry, line)), entry.standing) for entry in parsed.entries]
    return not parsed.problems and again == [tuple(row) for row in standing]


def _bytes_of(entry: Entry, line: Line) -> bytes:
    begin = entry.offset - line.offset
    return line.data[begin : begin + entry.length]  # the line itself, uncopied, when the record fills it


def _batches(source: Iterator[Block]) -> Iterator[tuple[list[Block], bool]]:
    """Blocks in portions of a transaction, and whether it is the last; one empty portion when there are none."""
    some: list[Block] = []
    size = 0
    for block in source:
        if some and size + len(block.data) > BATCH_BYTES:
            yield some, False
            some, size = [], 0
        some.append(block)
        size += len(block.data)
    yield some, True
