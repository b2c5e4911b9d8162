"""SQL for anyone: one statement, read-only whatever it says, and never without end.

Invariants:
- On SQLite the connection is opened read-only, and an authorizer refuses whatever is no reading: no ATTACH, no pragma that
  sets something, no extension. On PostgreSQL the transaction is read-only.
- A time limit ends a statement that runs too long.
- On SQLite entry_json(id) gives what no column holds: the record of an entry, for json_extract.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from transcripts.errors import QueryRefused
from transcripts.index.archive import Archive
from transcripts.index.database import Database
from transcripts.index.fulltext import text_of
from transcripts.index.schema import entries, metadata

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_PRAGMAS = frozenset({
    "table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list", "collation_list",
    "compile_options", "function_list", "data_version",
})  # fmt: skip
_CHECK_EVERY = 10_000  # steps of SQLite's machine between two looks at the clock


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a statement gave: the names of its columns, and its rows in order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def run(database: Database, statement: str, params: tuple[Any, ...] | dict[str, Any], seconds: float) -> QueryResult:
    """Run one reading statement. Raises QueryRefused, with what the database says of it."""
    if not database.is_sqlite:
        return _run_postgresql(database, statement, params, seconds)
    ends = time.monotonic() + seconds
    connection = sqlite3.connect(f"file:{quote(database.path)}?mode=ro", uri=True, isolation_level=None)
    try:
        with database.read() as reading:
            connection.create_function("search_text", 2, text_of(reading))
            connection.create_function("entry_json", 1, _Records(reading).json)
            connection.execute("SELECT 1 FROM search LIMIT 0")  # FTS5 declares its columns now, which the authorizer would refuse
            connection.set_authorizer(_authorize)
            connection.set_progress_handler(lambda: time.monotonic() > ends, _CHECK_EVERY)
            cursor = connection.execute(statement, params)
            return QueryResult(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())
    except (sqlite3.Error, sqlite3.Warning) as error:
        if str(error) == "interrupted" and time.monotonic() <= ends:
            raise KeyboardInterrupt from None  # it came while SQLite ran
        if str(error) == "interrupted":
            raise QueryRefused(f"the query took longer than {seconds:g} s and was stopped; give it a filter or a limit") from None
        if "not authorized" in str(error) or "readonly" in str(error):
            raise QueryRefused(f"only reading is allowed here ({error})") from None
        raise QueryRefused(f"the database refuses this query: {error}") from None
    finally:
        connection.close()


def tables(connection: Connection) -> dict[str, tuple[str, ...]]:
    """The tables and views that are for people, with their columns: the views first, then by name."""
    known = inspect(connection)
    views = [name for name in sorted(known.get_view_names()) if name.startswith("v_")]
    named = [*views, *(table.name for table in sorted(metadata.sorted_tables, key=lambda table: table.name))]
    return {name: tuple(column["name"] for column in known.get_columns(name)) for name in named}


class _Records:
    """The records of entries from the kept bytes, by the keys of the entries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: dict[int, Archive] = {}

    def json(self, key: object) -> str | None:
        """The record of an entry; None when there is none with this key, or only an empty line."""
        place = entries.c["file", "offset", "length"]
        row = self._connection.execute(select(*place).where(entries.c.id == key)).one_or_none() if type(key) is int else None
        if row is None:
            return None
        if row.file not in self._kept:
            self._kept = {row.file: Archive(self._connection, row.file)}
        return self._kept[row.file].read_at(row.offset, row.length).decode("utf-8", "replace") or None


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second not in ("load_extension", "fts3_tokenizer"):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _run_postgresql(database: Database, statement: str, params: tuple[Any, ...] | dict[str, Any], seconds: float) -> QueryResult:
    try:
        with database.read() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            connection.execute(text(f"SET LOCAL statement_timeout = {int(seconds * 1000)}"))
            result = connection.exec_driver_sql(statement, params or None)
            return QueryResult(tuple(result.keys()), [tuple(row) for row in result])
    except SQLAlchemyError as error:
        raise QueryRefused(f"the database refuses this query: {getattr(error, 'orig', error)}") from None
