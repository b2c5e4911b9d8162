"""What leaves the database, and what stays when a file is deleted.

Invariants:
- A session leaves in one transaction: its bytes, rows and places in the search index go together, and what hangs on them in
  other sessions (responses they share, titles from its summaries) is made anew. Chunks that other files share stay.
- A forgotten session leaves a tombstone, so that no sync brings it back, and no trace in the database file: words of it are
  merged out of the search index, and the file is written anew without its free pages.
- A deleted file is marked, nothing more: its bytes and rows stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, select, update

from transcripts.files.discover import TranscriptFile
from transcripts.index import archive, fulltext, tombstones, versions
from transcripts.index.database import Database
from transcripts.index.schema import files, store_summaries


class Named(NamedTuple):
    """A session as the table `files` names it."""

    source: str
    project_key: str
    session_id: str


class Forgotten(NamedTuple):
    """What was forgotten: numbers of files, all versions and sub-agents counted, and of their bytes."""

    files: int
    bytes: int


def mark_deleted(database: Database, keys: Sequence[int]) -> None:
    """Mark files as deleted by their user."""
    with database.write() as connection:
        connection.execute(update(files).where(files.c.id.in_(keys)).values(state="deleted"))


def remove(database: Database, session: Named) -> Forgotten:
    """Remove all that is kept of a session. Files of it on disk come back with the next sync."""
    with database.write() as connection:
        return _remove(connection, *_own(session))


def remove_file(database: Database, source: str, path: str) -> Forgotten:
    """Remove all that is kept of one file, all its versions. If it is on disk, it comes back with the next sync."""
    with database.write() as connection:
        return _remove(connection, files.c.source == source, files.c.path == path)


def bury_file(database: Database, source: str, found: TranscriptFile) -> None:
    """Note that a file is one of a forgotten session, as its id or its lines tell, so that it is not read again."""
    with database.write() as connection:
        tombstones.bury(connection, source, *tombstones.name_of(found))
        _remove(connection, files.c.source == source, files.c.path == found.path)


def forget(database: Database, sessions: Iterable[Named]) -> Forgotten:
    """Remove all that is kept of sessions, for good. Files on disk are left alone, and no longer imported.

    Cost: on SQLite the database is written anew, and takes its size again on the disk meanwhile.
    """
    count = size = 0
    with database.write() as connection:
        for session in sessions:
            for name in _names(connection, session):
                tombstones.bury(connection, session.source, session.project_key, name)
            gone = _remove(connection, *_own(session))
            count, size = count + gone.files, size + gone.bytes
        fulltext.purge(connection)
    database.compact()
    return Forgotten(count, size)


def _names(connection: Connection, session: Named) -> list[str]:
    """What a sync may know a session's files by: its id, and the names of sub-agents that lie beside its transcript."""
    beside = connection.scalars(
        select(files.c.name).distinct().where(*_own(session), files.c.kind == "agent", ~files.c.name.contains("/"))
    )
    return [session.session_id, *(name.removesuffix(".jsonl") for name in beside)]


def _own(session: Named) -> tuple[ColumnElement[bool], ...]:
    source, project_key, session_id = session
    return files.c.source == source, files.c.project_key == project_key, files.c.session_id == session_id


def _remove(connection: Connection, *wanted: ColumnElement[bool]) -> Forgotten:
    rows = connection.execute(select(files.c.id, files.c.kept_size).where(*wanted).order_by(files.c.id)).all()
    for key, _size in rows:
        versions.clear(connection, key)
    for key, _size in rows:
        archive.let_go(connection, key)
        connection.execute(delete(store_summaries).where(store_summaries.c.file == key))
        connection.execute(delete(files).where(files.c.id == key))
    return Forgotten(len(rows), sum(size for _key, size in rows))
