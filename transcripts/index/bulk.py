"""What an import runs for each file and row: SQLAlchemy's statements, sent by the driver itself.

Invariants:
- Values are what the driver takes, already clean: neither bind nor result processors run here, so a Boolean comes as a number.
- The statements come from the tables' metadata, so both databases get their own dialect of the same thing.
- A statement is put together once: `execute` of SQLAlchemy takes 75 microseconds around a query of 5.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Connection, Dialect, Executable, Table, literal_column
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler

_EXPANDING = re.compile(r"IN \(__\[POSTCOMPILE_(\w+)\]\)")  # where SQLAlchemy would put as many places as there are values

_DIALECTS: dict[tuple[str, str], Dialect] = {}

Row = tuple[Any, ...]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row], columns: tuple[str, ...] | None = None) -> None:
    """Insert rows; nothing when there are none."""
    if rows:
        names = columns or _names(table)
        _run(connection, _insert(_dialect(connection), table, names), rows)


def upsert_rows(
    connection: Connection,
    table: Table,
    rows: Sequence[Row],
    keep: Sequence[str] = (),
    conflict: Mapping[str, str] | None = None,
) -> None:
    """Insert rows; where the primary key stands already, the new row replaces the old.

    `keep` names columns that keep their old value then, `conflict` SQL for columns that get another one.
    """
    if rows:
        special = tuple(sorted((conflict or {}).items()))
        _run(connection, _upsert(_dialect(connection), table, tuple(keep), special), rows)


@contextmanager
def uncollected() -> Iterator[None]:
    """Within this block no cycles of garbage are looked for: rows have none, and looking takes a sixth of an import."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


@cache
def _insert(dialect: Dialect, table: Table, names: tuple[str, ...]) -> SQLCompiler:
    return _compiled(dialect, table.insert(), names)


@cache
def _upsert(dialect: Dialect, table: Table, keep: tuple[str, ...], conflict: tuple[tuple[str, str], ...]) -> SQLCompiler:
    insert: Any
    if dialect.name == "sqlite":
        insert = sqlite.insert(table)
    else:
        from sqlalchemy.dialects import postgresql  # slow to load

        insert = postgresql.insert(table)
    key = [column.name for column in table.primary_key]
    replaced: dict[str, Any] = {name: insert.excluded[name] for name in _names(table) if name not in key and name not in keep}
    replaced.update((name, literal_column(sql)) for name, sql in conflict)
    return _compiled(dialect, insert.on_conflict_do_update(index_elements=key, set_=replaced), _names(table))


def _dialect(connection: Connection) -> Dialect:
    """The same for all databases of a kind: each engine has its own, and with it statements would be compiled and kept anew."""
    dialect = connection.dialect
    return _DIALECTS.setdefault((dialect.name, dialect.driver), dialect)


def _compiled(dialect: Dialect, statement: Any, names: tuple[str, ...] | None = None) -> SQLCompiler:
    keys = None if names is None else list(names)
    compiled: SQLCompiler = statement.compile(dialect=dialect, column_keys=keys)
    return compiled


def _run(connection: Connection, compiled: SQLCompiler, rows: Sequence[Row]) -> None:
    if compiled.positiontup is None:
        names = list(compiled.params)
        _cursor(connection).executemany(compiled.string, [dict(zip(names, row, strict=True)) for row in rows])
    else:
        _cursor(connection).executemany(compiled.string, rows)


# -- one statement -----------------------------------------------------------------------------------------------------------


def fetch(connection: Connection, statement: Executable, **values: Any) -> list[Row]:
    """The rows of a query that is kept by whoever asks it. For an expanding parameter a list of texts is given."""
    found: list[Row] = _sent(connection, statement, values).fetchall()
    return found


def scalar(connection: Connection, statement: Executable, **values: Any) -> Any:
    """The first value of the first row; None without one."""
    row = _sent(connection, statement, values).fetchone()
    return None if row is None else row[0]


def run(connection: Connection, statement: Executable, **values: Any) -> int:
    """Send a statement that gives no rows; how many it met."""
    return int(_sent(connection, statement, values).rowcount)


def _sent(connection: Connection, statement: Executable, values: dict[str, Any]) -> Any:
    sql, order, constants, lists = _text(_dialect(connection), statement)
    if constants:
        values = {**constants, **values}
    if order is not None:
        values.update((name, orjson.dumps(values[name]).decode()) for name in lists)
    cursor = _cursor(connection)
    cursor.execute(sql, values if order is None else [values[name] for name in order])
    return cursor


@cache
def _text(dialect: Dialect, statement: Executable) -> tuple[str, list[str] | None, dict[str, Any], list[str]]:
    compiled = _compiled(dialect, statement)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    one = "IN (SELECT value FROM json_each(?))" if dialect.name == "sqlite" else r"= ANY(%(\1)s)"
    lists = _EXPANDING.findall(compiled.string)
    return _EXPANDING.sub(one, compiled.string), compiled.positiontup, constants, lists


def _cursor(connection: Connection) -> Any:
    """A cursor of the driver, in SQLAlchemy's transaction."""
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.cursor()
