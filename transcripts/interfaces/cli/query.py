"""`sql`: one reading statement, its rows as a table, CSV or JSON.

Invariants:
- CSV in a pipe holds the values as they are; on a terminal, and in a table, they are made harmless.
- Bytes are shown as hexadecimal digits; in CSV nothing stands for NULL, in JSON null.
"""

from __future__ import annotations

import csv
import math
import sys
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import console, count, one_line, safe, say, write_json

if TYPE_CHECKING:
    from transcripts.sessions.query import QueryResult

_CELL = 300  # characters of a value in a table


@click.command()
@click.argument("statement", required=False)
@click.option("--format", type=click.Choice(["table", "csv", "json"]), help="How to write the rows (default: table).")
@common
@pass_settings
def sql(settings: Settings, statement: str | None, format: str | None) -> int:
    """Ask the database with one SQL statement; it can only read.

    The statement may come from standard input (`-`, or nothing, in a pipe). The tables are listed in the README.

    \b
    Examples:
      transcripts sql "SELECT name, count(*) AS calls FROM tool_calls GROUP BY name ORDER BY calls DESC"
      transcripts sql --format csv < question.sql
    """
    if settings.json and format not in (None, "json"):
        raise InvalidRequest(f"--json and --format {format} exclude each other")
    if statement == "-" or (statement is None and not sys.stdin.isatty()):
        statement = sys.stdin.read()
    if not statement or not statement.strip():
        raise InvalidRequest('give a statement, like: transcripts sql "SELECT count(*) FROM sessions"')
    with settings.opened() as index:
        result = index.sql(statement)
    if settings.json or format == "json":
        _write_json(result)
    elif format == "csv":
        _write_csv(result)
    else:
        _write_table(result)
    return 0


def _write_json(result: QueryResult) -> None:
    keys: list[str] = []
    for column in result.columns:
        again = keys.count(column) and sum(key.startswith(f"{column}_") for key in keys) + 2
        keys.append(f"{column}_{again}" if again else column)
    for row in result.rows:
        write_json({key: _plain(value) for key, value in zip(keys, row, strict=True)})


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_csv(result: QueryResult) -> None:
    shown = sys.stdout.isatty()
    out = csv.writer(sys.stdout, lineterminator="\n")
    for row in [result.columns, *result.rows]:
        values = [_plain(value) for value in row]
        out.writerow([safe(value) if shown and isinstance(value, str) else value for value in values])


def _write_table(result: QueryResult) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(result.columns):
        numbers = all(isinstance(row[position], (int, float, type(None))) for row in result.rows)
        table.add_column(Text(one_line(column)), justify="right" if numbers and result.rows else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*(Text("" if value is None else one_line(str(_plain(value)), _CELL)) for value in row))
    console().print(table)
    say(f"{count(len(result.rows), 'row')}.")
