"""The search index: it trails the entries by one mark, and agrees with them.

Invariants:
- Every entry with a key up to the mark of which text.py makes a text has exactly one row in `search`, with that text; no
  other row exists. `compare` proves it.
- Every row lies in one of the `search_spans`, and its entry's time within the span's. `search_tools` tells of entries that
  are there, and of no others.
- The mark rises in ascending order of keys, in transactions of its own, or (`follow`) in that which adds a few entries. A
  kill between an import and this costs nothing: what is missing is indexed by the next drain.
- An entry leaves the index before it leaves `entries`, with the very text that was indexed: FTS5 takes the words of a
  deleted row from its caller, and a text that differs by one word would damage the index without a sign.
- SQLite only; PostgreSQL keeps no search index yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from sqlite3 import DatabaseError as SQLiteError
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, select
from sqlalchemy.exc import DatabaseError

from transcripts.errors import ChunkDamaged, DatabaseBusy
from transcripts.index.apart import Apart
from transcripts.index.archive import Archive
from transcripts.index.bulk import scalar, uncollected, upsert_rows
from transcripts.index.database import Database, SearchText
from transcripts.index.prepare import Record, searchable
from transcripts.index.report import Meter, Progress
from transcripts.index.schema import SEARCH_COLUMNS, TEXT_VERSION, entries, files, meta, search_spans, search_tools
from transcripts.index.scope import Place
from transcripts.index.text import SEARCHED_TYPES, Texts, may_be_searched

BATCH = 10_000  # documents a transaction: a commit makes FTS5 write what it has gathered, 2,000 cost 1.4 times as much
FEW = 1000  # documents that the transaction which adds them may index too
SPAN = 2000  # entries of a span, at least, before the next begins
_COLUMNS = ", ".join(SEARCH_COLUMNS)
_VALUES = ", ".join("?" * (1 + len(SEARCH_COLUMNS)))
_VOCABULARY = {  # each word of each row, and the sizes of rows: as found, and as the texts would have it
    "words": ("temp.words_found", "temp.words_truth"),
    "sizes": ("main.search_docsize", "temp.search_truth_docsize"),
}
_VALUE = select(meta.c.value).where(meta.c.key == bindparam("key"))
_LAST_SPAN = select(search_spans).order_by(search_spans.c.first.desc()).limit(1)
_PLACE = select(*files.c["source", "project_key", "session_id"]).where(files.c.id == bindparam("file"))
_PORTION = 1024 * 1024  # bytes of records whose texts are made at once
_UNREADABLE: Final = ()  # what stands for the texts of a record whose bytes cannot be read
_ANSWERED = """
    INSERT INTO search_tools (entry, names)
    SELECT e.id, json_group_array(DISTINCT t.name) FROM entries AS e
    CROSS JOIN messages AS m ON m.file = e.file AND m."offset" = e."offset" AND m.result_ids IS NOT NULL
    CROSS JOIN json_each(m.result_ids) AS r CROSS JOIN tool_calls AS t ON t.file = m.file AND t.tool_use_id = r.value
    WHERE e.id BETWEEN ? AND ? AND t.name <> '' GROUP BY e.id"""
_MARK = "search_mark"
_VERSION = "search_text_version"


def mark(connection: Connection) -> int:
    """The key of the last entry that has been indexed."""
    return int(scalar(connection, _VALUE, key=_MARK) or 0)


def pending(connection: Connection) -> int:
    """How many entries wait to be indexed."""
    return int(connection.exec_driver_sql("SELECT count(*) FROM entries WHERE id > ?", (mark(connection),)).scalar() or 0)


def ensure_version(connection: Connection) -> None:
    """Empty the index when the texts are made by other rules than it was filled with."""
    version = scalar(connection, _VALUE, key=_VERSION)
    if version != str(TEXT_VERSION):
        reset(connection)
        _set(connection, _VERSION, str(TEXT_VERSION))


def reset(connection: Connection) -> None:
    """Empty the index; the next drain fills it again."""
    connection.exec_driver_sql("INSERT INTO search (search) VALUES ('delete-all')")
    connection.execute(delete(search_spans))
    connection.execute(delete(search_tools))
    _set(connection, _MARK, "0")


def drain(database: Database, limit: int | None = None, progress: Callable[[Progress], None] | None = None) -> int:
    """Index what waits, in batches of a transaction each; how many entries were passed. `limit` bounds them."""
    passed = 0
    with database.read() as connection:  # with nothing to do, no writer is waited for
        version = connection.scalar(_VALUE, {"key": _VERSION})
        waiting = pending(connection) if version == str(TEXT_VERSION) else None
        if waiting == 0:
            return 0
        size = _waiting_bytes(connection) if progress or waiting is None or waiting > BATCH else 0
    advance = Meter(progress, size, "texts")
    with Apart(size) as apart:
        step = most = -1
        while step == most and passed != limit:
            most = BATCH if limit is None else min(BATCH, limit - passed)
            with uncollected(), database.write() as connection:
                ensure_version(connection)
                step, size = _step(connection, most, apart)
            passed += step
            advance(size)
    if passed > BATCH:
        with suppress(DatabaseBusy), database.patience(1):  # the next large one does it
            database.shrink()
    return passed


def follow(connection: Connection) -> int:
    """Index what waits, within a transaction that has just added entries; how many were passed: none where more than FEW wait."""
    ensure_version(connection)
    return _step(connection, FEW + 1, Apart(0), FEW)[0]


def remove(connection: Connection, wanted: ColumnElement[bool]) -> None:
    """Take the entries that meet a condition out of the index. Their rows and bytes must still be there.

    Where kept bytes cannot be read, so that no one knows the words, the index is emptied, to be filled again.
    """
    if connection.dialect.name != "sqlite":
        return
    indexed = wanted & (entries.c.id <= mark(connection))
    for key, found in _documents(connection, indexed, Apart(0)):
        if found == _UNREADABLE:
            reset(connection)
            return
        if found is not None:
            connection.exec_driver_sql(
                f"INSERT INTO search (search, rowid, {_COLUMNS}) VALUES ('delete', {_VALUES})", (key, *found)
            )
    connection.execute(delete(search_tools).where(search_tools.c.entry.in_(select(entries.c.id).where(indexed))))


def purge(connection: Connection) -> None:
    """Merge the index into one part, so that no word of a removed entry is left in it. Cost: that of writing it anew."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("INSERT INTO search (search) VALUES ('optimize')")


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


def misplaced(connection: Connection) -> list[int]:
    """The keys of entries that are indexed and lie in no span, or whose time does not lie in it; and of tools without entry."""
    span = "SELECT {} FROM search_spans AS s WHERE s.first <= e.id ORDER BY s.first DESC LIMIT 1"
    outside = " OR ".join(
        [f"coalesce(({span.format('s.last')}), 0) < e.id"]
        + [
            f"coalesce(e.timestamp {sign} ({span.format(f's.{edge}')}), true)"
            for sign, edge in (("<", "oldest"), (">", "newest"))
        ]
    )
    indexed = (
        f"SELECT e.id FROM search_docsize AS d JOIN entries AS e ON e.id = d.id WHERE e.timestamp IS NOT NULL AND ({outside})"
    )
    left = "SELECT t.entry FROM search_tools AS t LEFT JOIN entries AS e ON e.id = t.entry WHERE e.id IS NULL"
    return [row[0] for statement in (indexed, left) for row in connection.exec_driver_sql(statement)]


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
        self._reader = _Reader(connection)
        self._last: tuple[int, Texts | None] | None = None

    def column(self, entry: int, column: int) -> str | None:
        if self._last is None or self._last[0] != entry:
            row = self._connection.execute(_records().where(entries.c.id == entry)).one()
            ((_key, found),) = searchable([self._reader.record(*row)])
            self._last = (entry, found or None)
        texts = self._last[1]
        return None if texts is None else texts[column]


class _Reader:
    """Reads the kept bytes of records; asked for in order, a chunk is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._file: int | None = None
        self._since = 0

    def record(self, key: int, file: int, offset: int, length: int, kind: str, answered: str | None) -> Record:
        if file != self._file or offset < self._since:
            self._archive = Archive(self._connection, file, offset)
            self._place = Place(*self._connection.execute(_PLACE, {"file": file}).one())
            self._file, self._since = file, offset
        try:
            data = self._archive.read_at(offset, length)
        except ChunkDamaged:
            data = None
        return Record(key, data, kind, self._place, orjson.loads(answered) if answered else [])

    def records(self, rows: Iterable[Sequence[Any]]) -> Iterator[list[Record]]:
        """The records of these rows, in portions; without those that their first look tells to hold no text."""
        some: list[Record] = []
        size = 0
        for row in rows:
            record = self.record(*row)
            if record.data is not None and not may_be_searched(record.data, record.kind):
                continue
            some.append(record)
            size += len(record.data or b"")
            if size > _PORTION:
                yield some
                some, size = [], 0
        yield some


def _records() -> Select[Any]:
    """Of entries all that their texts are made of."""
    columns = entries.c["id", "file", "offset", "length", "type"]
    return select(*columns, search_tools.c.names).outerjoin(search_tools, search_tools.c.entry == entries.c.id)


def _waiting_bytes(connection: Connection) -> int:
    waiting = "SELECT sum(length) FROM entries WHERE id > ?"
    return int(connection.exec_driver_sql(waiting, (mark(connection),)).scalar() or 0)


def _step(connection: Connection, limit: int, apart: Apart, most: int | None = None) -> tuple[int, int]:
    """Index the next entries, at most `limit`, and none where more than `most` are met; how many, and their bytes."""
    start = mark(connection)
    last, count, size, oldest, newest = connection.exec_driver_sql(
        "SELECT max(id), count(*), sum(length), min(timestamp), max(timestamp) "
        "FROM (SELECT id, length, timestamp FROM entries WHERE id > ? ORDER BY id LIMIT ?)",
        (start, limit),
    ).one()
    if not count or (most is not None and count > most):
        return 0, 0
    connection.exec_driver_sql(_ANSWERED, (start + 1, last))
    documents = _documents(connection, (entries.c.id > start) & (entries.c.id <= last), apart)
    driver: Any = connection.connection.driver_connection  # its executemany takes the documents one by one
    driver.executemany(
        f"INSERT INTO search (rowid, {_COLUMNS}) VALUES ({_VALUES})", ((key, *found) for key, found in documents if found)
    )
    _add_span(connection, start + 1, last, oldest, newest)
    _set(connection, _MARK, str(last))
    return int(count), int(size)


def _add_span(connection: Connection, first: int, last: int, oldest: int | None, newest: int | None) -> None:
    """Tell the times of newly indexed entries: in the last span while it is short, else in one of their own."""
    span = connection.execute(_LAST_SPAN).one_or_none()
    if span is not None and last - span.first < SPAN:
        times = [time for time in (span.oldest, span.newest, oldest, newest) if time is not None]
        first, oldest, newest = span.first, min(times, default=None), max(times, default=None)
    upsert_rows(connection, search_spans, [(first, last, oldest, newest)])


def _documents(
    connection: Connection, wanted: ColumnElement[bool], apart: Apart
) -> Iterator[tuple[int, Texts | tuple[()] | None]]:
    """The key and texts of entries that may be searched, read in one ordered pass over their files' bytes."""
    rows = connection.execute(_records().where(wanted, entries.c.type.in_(SEARCHED_TYPES)).order_by(entries.c.id)).all()
    return chain.from_iterable(apart.map(searchable, _Reader(connection).records(rows)))


def _set(connection: Connection, key: str, value: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
