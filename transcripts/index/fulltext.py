"""The search index: it trails the entries by one mark, and agrees with them.

Invariants:
- Every entry of a searched type with a key up to the mark has exactly one row in `search`, with the text that text.py makes
  of its kept bytes; no other row exists. `compare` proves it.
- The mark rises in transactions of its own, in ascending order of keys. A kill between an import and this costs nothing:
  what is missing is indexed by the next drain.
- An entry leaves the index before it leaves `entries`, with the very text that was indexed: FTS5 takes the words of a
  deleted row from its caller, and a text that differs by one word would damage the index without a sign.
- SQLite only; PostgreSQL keeps no search index yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sqlite3 import DatabaseError as SQLiteError
from typing import Any

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.exc import DatabaseError

from transcripts.errors import ChunkDamaged
from transcripts.files.entry import load
from transcripts.index.archive import Archive
from transcripts.index.database import Database, SearchText
from transcripts.index.report import Meter, Progress
from transcripts.index.schema import SEARCH_COLUMNS, TEXT_VERSION, entries, meta
from transcripts.index.text import SEARCHED_TYPES, Texts, texts

BATCH = 2000  # documents a transaction: a commit each 1,000 costs 1.2 times one commit, each 100 twice
_COLUMNS = ", ".join(SEARCH_COLUMNS)
_VOCABULARY = {  # each word of each row, and the sizes of rows: as found, and as the texts would have it
    "words": ("temp.words_found", "temp.words_truth"),
    "sizes": ("main.search_docsize", "temp.search_truth_docsize"),
}
_UNREADABLE: Texts = (None, None, None, None, None)
_MARK = "search_mark"
_VERSION = "search_text_version"


def mark(connection: Connection) -> int:
    """The key of the last entry that has been indexed."""
    return int(connection.scalar(select(meta.c.value).where(meta.c.key == _MARK)) or 0)


def pending(connection: Connection) -> int:
    """How many entries wait to be indexed."""
    return int(connection.exec_driver_sql("SELECT count(*) FROM entries WHERE id > ?", (mark(connection),)).scalar() or 0)


def ensure_version(connection: Connection) -> None:
    """Empty the index when the texts are made by other rules than it was filled with."""
    version = connection.scalar(select(meta.c.value).where(meta.c.key == _VERSION))
    if version != str(TEXT_VERSION):
        reset(connection)
        _set(connection, _VERSION, str(TEXT_VERSION))


def reset(connection: Connection) -> None:
    """Empty the index; the next drain fills it again."""
    connection.exec_driver_sql("INSERT INTO search (search) VALUES ('delete-all')")
    _set(connection, _MARK, "0")


def drain(database: Database, limit: int | None = None, progress: Callable[[Progress], None] | None = None) -> int:
    """Index what waits, in batches of a transaction each; how many entries were passed. `limit` bounds them."""
    passed = 0
    advance = Meter(progress, _waiting_bytes(database) if progress else 0, "texts")
    with database.read() as connection:  # with nothing to do, no writer is waited for
        version = connection.scalar(select(meta.c.value).where(meta.c.key == _VERSION))
        if version == str(TEXT_VERSION) and not pending(connection):
            return 0
    while limit is None or passed < limit:
        with database.write() as connection:
            ensure_version(connection)
            step, size = _step(connection, BATCH if limit is None else min(BATCH, limit - passed))
        if not step:
            break
        passed += step
        advance(size)
    return passed


def remove(connection: Connection, wanted: ColumnElement[bool]) -> None:
    """Take the entries that meet a condition out of the index. Their rows and bytes must still be there.

    Where kept bytes cannot be read, so that no one knows the words, the index is emptied, to be filled again.
    """
    if connection.dialect.name != "sqlite":
        return
    for key, found in _documents(connection, wanted & (entries.c.id <= mark(connection))):
        if found is None:
            reset(connection)
            return
        connection.exec_driver_sql(
            f"INSERT INTO search (search, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?)", (key, *found)
        )


def compare(connection: Connection) -> list[int]:
    """The keys of entries whose row in the index disagrees with their text; empty means that all is well.

    Cost: the texts of all entries are made again; where they disagree, a second index is built in memory to name the rows.
    """
    with bound_texts(connection):
        try:
            connection.exec_driver_sql("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        except (DatabaseError, SQLiteError):
            return _differing(connection)
        return []


def _differing(connection: Connection) -> list[int]:
    run = connection.exec_driver_sql
    options = """tokenize = "unicode61 remove_diacritics 2" """
    run(f"CREATE VIRTUAL TABLE temp.search_truth USING fts5({_COLUMNS}, content = '', {options})")
    run("CREATE VIRTUAL TABLE temp.words_truth USING fts5vocab('temp', 'search_truth', 'instance')")
    run("CREATE VIRTUAL TABLE temp.words_found USING fts5vocab('main', 'search', 'instance')")
    try:
        run(f"INSERT INTO temp.search_truth (rowid, {_COLUMNS}) SELECT id, {_COLUMNS} FROM search_source")
        differing: set[int] = set()
        for columns, table in (("doc, term, col, offset", "words"), ("id, sz", "sizes")):
            found, truth = f"SELECT {columns} FROM {_VOCABULARY[table][0]}", f"SELECT {columns} FROM {_VOCABULARY[table][1]}"
            for one, other in ((found, truth), (truth, found)):
                differing.update(row[0] for row in run(f"{one} EXCEPT {other}"))
        return sorted(differing) or [0]
    except (DatabaseError, SQLiteError):
        return [0]  # damaged beyond reading: no row can be named
    finally:
        for table in ("words_found", "words_truth", "search_truth"):
            run(f"DROP TABLE temp.{table}")


@contextmanager
def bound_texts(connection: Connection) -> Iterator[None]:
    """Within this block the SQL function search_text(entry, column) does what `text_of` does, for the view search_source."""
    bound = connection.connection.info["search_text"]
    bound.append(text_of(connection))
    try:
        yield
    finally:
        bound.pop()


def text_of(connection: Connection) -> SearchText:
    """The searchable text of an entry and column, made from its kept bytes; asked for in order, a chunk is read once."""
    return _Texts(connection).column


class _Texts:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._archive: tuple[int, Archive] | None = None
        self._last: tuple[int, Texts] | None = None

    def column(self, entry: int, column: int) -> str | None:
        if self._last is None or self._last[0] != entry:
            row = self._connection.execute(
                select(entries.c.file, entries.c.offset, entries.c.length).where(entries.c.id == entry)
            ).one()
            if self._archive is None or self._archive[0] != row.file:
                self._archive = (row.file, Archive(self._connection, row.file))
            self._last = (entry, _texts_at(self._archive[1], row.offset, row.length) or _UNREADABLE)
        return self._last[1][column]


def _waiting_bytes(database: Database) -> int:
    with database.read() as connection:
        waiting = "SELECT sum(length) FROM entries WHERE id > ?"
        return int(connection.exec_driver_sql(waiting, (mark(connection),)).scalar() or 0)


def _step(connection: Connection, limit: int) -> tuple[int, int]:
    """Index the next entries; how many, and their bytes."""
    start = mark(connection)
    last, count, size = connection.exec_driver_sql(
        "SELECT max(id), count(*), sum(length) FROM (SELECT id, length FROM entries WHERE id > ? ORDER BY id LIMIT ?)",
        (start, limit),
    ).one()
    if not count:
        return 0, 0
    documents = _documents(connection, (entries.c.id > start) & (entries.c.id <= last))
    driver: Any = connection.connection.driver_connection  # its executemany takes the documents one by one
    driver.executemany(
        f"INSERT INTO search (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        ((key, *(found or _UNREADABLE)) for key, found in documents),
    )
    _set(connection, _MARK, str(last))
    return int(count), int(size)


def _documents(connection: Connection, wanted: ColumnElement[bool]) -> Iterator[tuple[int, Texts | None]]:
    """The key and texts of searched entries, read in one ordered pass over their files' bytes."""
    rows = connection.execute(
        select(entries.c.id, entries.c.file, entries.c.offset, entries.c.length)
        .where(wanted, entries.c.type.in_(SEARCHED_TYPES))
        .order_by(entries.c.id)
    ).all()
    archive: tuple[int, Archive] | None = None
    for key, file, offset, length in rows:
        if archive is None or archive[0] != file:
            archive = (file, Archive(connection, file))
        yield key, _texts_at(archive[1], offset, length)


def _texts_at(archive: Archive, offset: int, length: int) -> Texts | None:
    """The texts of the record at a place; None where its bytes cannot be read."""
    try:
        return texts(load(archive.read_at(offset, length)))
    except ChunkDamaged:
        return None


def _set(connection: Connection, key: str, value: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
