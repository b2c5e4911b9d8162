"""The versions of a file: whether what stands on disk goes on where the kept bytes end, or is another text.

Invariants:
- A file whose kept prefix changed, or that shrank, becomes a new version; the old one is marked `replaced` and keeps its
  bytes and usage. Of its other rows only those stay whose uuid the newest version lacks.
- The versions of a path share the chunks of their equal beginning.
- Nothing that is seen on disk deletes kept bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from transcripts.files.discover import TranscriptFile
from transcripts.files.reader import ReadAt
from transcripts.index import archive, derive, fulltext, tombstones
from transcripts.index.aggregate import (
    calls_of,
    named_sessions,
    remove_session,
    responses_of,
    update_copies,
    update_responses,
    update_session,
)
from transcripts.index.database import Database
from transcripts.index.frames import digest
from transcripts.index.report import ImportReport
from transcripts.index.schema import DERIVED, DERIVED_VERSION, entries, files, messages, nodes, usage

EDGE = 4096  # bytes at the head and the tail of the kept part that are compared when a file has grown

_NEWEST = (
    select(files)
    .where(files.c.source == bindparam("source"), files.c.path == bindparam("path"))
    .order_by(files.c.version.desc())
    .limit(1)
)

_ADDED = insert(files).returning(*files.c)


class Overtaken(Exception):
    """Another importer has changed the file's row meanwhile; read it again."""


def edges(read_at: ReadAt, size: int) -> dict[str, bytes]:
    """The digests of the first and the last of `size` bytes, as the columns of `files` hold them."""
    return {
        "head_digest": digest(read_at(0, min(size, EDGE))),
        "tail_digest": digest(read_at(max(0, size - EDGE), min(size, EDGE))),
    }


@dataclass(frozen=True)
class Disk:
    """A file on disk: its state when it was opened, and its bytes."""

    found: TranscriptFile
    read_at: ReadAt

    def edges(self, size: int) -> dict[str, bytes]:
        """The digests by which growth is told from change."""
        return edges(self.read_at, size)

    def stat(self) -> dict[str, Any]:
        found = self.found
        return {
            "size": found.size, "mtime_ns": found.mtime_ns, "ctime_ns": found.ctime_ns,
            "device": found.device % 2**63, "inode": str(found.inode), "state": "live",
        }  # fmt: skip


def current(database: Database, source: str, disk: Disk, report: ImportReport) -> Row[Any]:
    """The row of `files` that what stands on disk belongs to: the newest of its path, or a new version."""
    found = disk.found
    with database.read() as connection:
        row = connection.execute(_NEWEST, {"source": source, "path": found.path}).one_or_none()
        same = row is not None and _is_prefix(connection, row, disk)
    if row is not None and is_misplaced(row, found):
        return _reclassified(database, row, disk)
    if row is None:
        report.new += 1
        row = _new_version(database, source, disk, None)
    elif not same:
        report.rewritten += 1
        row = _new_version(database, source, disk, row)
    elif found.size > row.kept_size:
        report.grown += 1
    return row


def is_misplaced(row: Row[Any], found: TranscriptFile) -> bool:
    """Whether a file was taken for another kind, or another session's: it was met below another folder."""
    return (row.kind, row.project_key, row.name) != (found.kind, found.project_key, found.name)


def _reclassified(database: Database, row: Row[Any], disk: Disk) -> Row[Any]:
    """Put a misplaced file where it belongs; its rows are made anew."""
    found = disk.found
    fields = ("kind", "project_key", "session_id", "agent_id", "name")
    place = {name: getattr(found, name) for name in fields}
    with database.write() as connection:
        clear(connection, row.id)
        connection.execute(update(files).where(files.c.id == row.id).values(**place, derived_version=0))
        return connection.execute(select(files).where(files.c.id == row.id)).one()


def clear(connection: Connection, file: int) -> None:
    """Take all rows that were derived from a file away, out of the search index first: its place must not have changed yet.

    The caller sees to it that they are derived anew.
    """
    touched, calls, named = responses_of(connection, file), calls_of(connection, file), named_sessions(connection, file)
    fulltext.remove(connection, entries.c.file == file)
    remove_session(connection, file)
    derive.remove(connection, file)
    update_responses(connection, touched)
    update_copies(connection, calls)
    for session in named:
        update_session(connection, session)


def _is_prefix(connection: Connection, row: Row[Any], disk: Disk) -> bool:
    """Whether the kept bytes are the beginning of what stands on disk.

    A file that has grown in place is compared at its head and at the end of the kept part; one that was touched, came
    back or is another inode, as a whole.
    """
    found = disk.found
    if row.kept_size == 0:
        return True
    if found.size < row.kept_size:
        return False
    if row.state == "live" and row.inode == str(found.inode) and found.size > row.kept_size:
        return disk.edges(row.kept_size) == {"head_digest": row.head_digest, "tail_digest": row.tail_digest}
    return archive.same_bytes(connection, row.id, disk.read_at)


def _new_version(database: Database, source: str, disk: Disk, old: Row[Any] | None) -> Row[Any]:
    found = disk.found
    with database.write() as connection:
        if old is not None:
            still = and_(files.c.id == old.id, files.c.kept_size == old.kept_size, files.c.state != "replaced")
            if connection.execute(update(files).where(still).values(state="replaced")).rowcount != 1:
                raise Overtaken
        if tombstones.is_forgotten(connection, source, *tombstones.name_of(found)):
            raise tombstones.Buried  # since the scan
        version = old.version + 1 if old is not None else 1
        values = {
            "source": source, "path": found.path, "version": version, "kind": found.kind, "project_key": found.project_key,
            "session_id": found.session_id, "agent_id": found.agent_id, "name": found.name, **disk.stat(),
            "kept_size": 0, "imported_size": 0, "imported_lines": 0, "derived_version": -DERIVED_VERSION,
        }  # fmt: skip
        try:
            row = connection.execute(_ADDED, values).one()
        except IntegrityError:
            raise Overtaken from None
        if old is None:
            return row
        shared = archive.share(connection, old.id, row.id, disk.read_at)
        more = update(files).where(files.c.id == row.id).values(kept_size=shared, **disk.edges(shared))
        return connection.execute(more.returning(*files.c)).one()


def take_over(connection: Connection, row: Row[Any]) -> None:
    """Let a version stand for its session from now on: the first lines of it are in."""
    older = select(files.c.id).where(files.c.source == row.source, files.c.path == row.path, files.c.version < row.version)
    for file in connection.scalars(older).all():
        remove_session(connection, file)


def thin_out(connection: Connection, row: Row[Any]) -> None:
    """Of the versions of a file keep only the records whose uuid no later one has, beside their usage; `row` is all there.

    A version that was replaced before it was read to its end is finished late: then it is thinned out itself.
    """
    same_path = and_(files.c.source == row.source, files.c.path == row.path)
    others = connection.execute(select(files.c.id, files.c.version).where(same_path).order_by(files.c.version)).all()
    for key, version in others:
        if version < row.version:
            _thin_out(connection, key, row.id)
    for key, version in others:
        if version > row.version:
            _thin_out(connection, row.id, key)


def _thin_out(connection: Connection, file: int, newer: int) -> None:
    again, there = messages.alias(), nodes.alias()
    in_newer = exists().where(there.c.file == newer, there.c.uuid == messages.c.uuid, again.c.node == there.c.id)
    lost = select(messages.c.entry).where(messages.c.file == file, ~in_newer)
    fulltext.remove(connection, and_(entries.c.file == file, entries.c.id.not_in(lost)))
    connection.execute(delete(messages).where(messages.c.file == file, in_newer))
    kept = select(*messages.c["entry", "node"]).where(messages.c.file == file).subquery()
    connection.execute(delete(entries).where(entries.c.file == file, entries.c.id.not_in(select(kept.c.entry))))
    connection.execute(delete(nodes).where(nodes.c.file == file, nodes.c.id.not_in(select(kept.c.node))))
    calls, named = calls_of(connection, file), named_sessions(connection, file)
    for table in DERIVED:
        if table not in (messages, entries, nodes, usage):
            connection.execute(delete(table).where(table.c.file == file))
    update_copies(connection, calls)
    for session in named:  # whose title was a summary of the older version
        update_session(connection, session)
