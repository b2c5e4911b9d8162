"""The tables that the views stand on as Parquet files, and the views beside them as SQL for DuckDB.

Invariants:
- A file that is there is never written over; nothing but complete files is left behind.
- All tables are of one moment: the caller's read transaction.
- Memory is bounded by a batch of rows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from sqlalchemy import BigInteger, Boolean, Connection, Double, Integer, LargeBinary, Table, select

from transcripts.errors import FileExists, InvalidRequest
from transcripts.index import schema
from transcripts.index.views import VIEWS

TABLES: tuple[Table, ...] = (
    schema.responses, schema.usage, schema.tool_calls, schema.prompts, schema.errors, schema.boundaries, schema.entries,
    schema.sessions, schema.session_models, schema.client_costs, schema.projects, schema.files, schema.prices,
    schema.zone_offsets, schema.numbers, schema.meta,
)  # fmt: skip
VIEWS_FILE = "views.sql"
_BATCH = 50_000  # rows


def write_tables(connection: Connection, folder: str) -> list[str]:
    """Write the tables into a folder, which is made when it is not there; the paths written, in order.

    Raises FileExists, and InvalidRequest where the library of the extra `parquet` is missing. Cost: all rows of the tables.
    """
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise InvalidRequest("Parquet needs a library: pip install 'transcripts[parquet]'") from None
    names = [*(f"{table.name}.parquet" for table in TABLES), VIEWS_FILE]
    os.makedirs(folder, mode=0o700, exist_ok=True)
    paths = [os.path.join(folder, name) for name in names]
    if there := next((path for path in paths if os.path.lexists(path)), None):
        raise FileExists(f"{there} is there already; name a new folder")
    written: list[str] = []
    try:
        for table, path in zip(TABLES, paths, strict=False):
            fields = pyarrow.schema([(column.name, _type(pyarrow, column.type)) for column in table.columns])
            with open(path, "xb", opener=_private) as file:
                written.append(path)
                with ParquetWriter(file, fields, compression="zstd") as writer:
                    rows = connection.execute(select(table).order_by(*table.primary_key)).mappings()
                    while some := rows.fetchmany(_BATCH):
                        writer.write_table(pyarrow.Table.from_pylist([dict(row) for row in some], schema=fields))
        with open(paths[-1], "x", encoding="utf-8", opener=_private) as text:
            written.append(paths[-1])
            text.write(views_sql())
    except BaseException:
        for path in written:
            with suppress(OSError):
                os.unlink(path)
        raise
    return paths


def views_sql() -> str:
    """The views over the Parquet files, for DuckDB in the folder where they lie."""
    tables = [f"CREATE VIEW {table.name} AS SELECT * FROM '{table.name}.parquet';" for table in TABLES]
    views = [f"-- {about}\nCREATE VIEW {name} AS{sql};" for name, (about, sql) in VIEWS.items()]
    return "\n".join([*tables, *views]) + "\n"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _type(pyarrow: Any, kind: object) -> Any:
    if isinstance(kind, Boolean):
        return pyarrow.bool_()
    if isinstance(kind, (Integer, BigInteger)):
        return pyarrow.int64()
    if isinstance(kind, Double):
        return pyarrow.float64()
    return pyarrow.binary() if isinstance(kind, LargeBinary) else pyarrow.string()
