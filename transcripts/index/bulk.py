"""Many rows at once, past the per-row cost of SQLAlchemy: its statements, the driver's executemany.

Invariants:
- Rows are tuples in the order of the table's columns (or of `columns`), already clean: bind processors do not run here.
- The statements come from the tables' metadata, so both databases get their own dialect of the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table, literal_column
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler

Row = tuple[Any, ...]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row], columns: tuple[str, ...] | None = None) -> None:
    """Insert rows; nothing when there are none."""
    if rows:
        names = columns or _names(table)
        _run(connection, _insert(connection.dialect, table, names), rows)


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
        _run(connection, _upsert(connection.dialect, table, tuple(keep), special), rows)


def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


@cache
def _insert(dialect: Dialect, table: Table, names: tuple[str, ...]) -> SQLCompiler:
    return _compiled(dialect, table.insert(), names)


@cache
def _upsert(dialect: Dialect, table: Table, keep: tuple[str, ...], conflict: tuple[tuple[str, str], ...]) -> SQLCompiler:
    insert = sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)
    key = [column.name for column in table.primary_key]
    replaced: dict[str, Any] = {name: insert.excluded[name] for name in _names(table) if name not in key and name not in keep}
    replaced.update((name, literal_column(sql)) for name, sql in conflict)
    return _compiled(dialect, insert.on_conflict_do_update(index_elements=key, set_=replaced), _names(table))


def _compiled(dialect: Dialect, statement: Any, names: tuple[str, ...]) -> SQLCompiler:
    compiled: SQLCompiler = statement.compile(dialect=dialect, column_keys=list(names))
    return compiled


def _run(connection: Connection, compiled: SQLCompiler, rows: Sequence[Row]) -> None:
    order = compiled.positiontup
    if order is None:
        names = list(compiled.params)
        connection.exec_driver_sql(compiled.string, [dict(zip(names, row, strict=True)) for row in rows])
    else:
        connection.exec_driver_sql(compiled.string, list(rows))
