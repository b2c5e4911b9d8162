"""`sql`: reading statements, their rows as a table, CSV, JSON or Markdown; one, or a prompt for several.

Invariants:
- CSV in a pipe holds the values as they are; on a terminal, and in a table, they are made harmless.
- Bytes are shown as hexadecimal digits; in CSV nothing stands for NULL, in JSON null.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import console, count, one_line, safe, say, write, write_json

if TYPE_CHECKING:
    from transcripts.sessions.query import QueryResult

_CELL = 300  # characters of a value in a table
_SIGNS = re.compile(r"[\\|`*_<\[]")  # what Markdown takes for markup
FORMATS = ["table", "csv", "json", "markdown"]


@click.command()
@click.argument("statement", required=False)
@click.option("--format", type=click.Choice(FORMATS), help="How to write the rows (default: table).")
@click.option("--file", "-f", "source", metavar="FILE", help="Read the statement from a file.")
@common
@pass_settings
def sql(settings: Settings, statement: str | None, format: str | None, source: str | None) -> int:
    """Ask the database with a SQL statement; it can only read.

    The statement may come from a file, or from standard input (`-`, or nothing, in a pipe). With none, a terminal gets a prompt
    with history and completion. The README has the tables and views, and queries to begin with.

    \b
    Examples:
      transcripts sql "SELECT * FROM v_daily_usage ORDER BY day DESC LIMIT 7"
      transcripts sql --format csv < question.sql
    """
    if settings.json and format not in (None, "json"):
        raise InvalidRequest(f"--json and --format {format} exclude each other")
    if statement is not None and source is not None:
        raise InvalidRequest("give a statement or --file")
    form = "json" if settings.json else format or "table"
    if source is not None:
        with open(source, encoding="utf-8") as file:
            statement = file.read()
    elif statement is None and sys.stdin.isatty() and sys.stdout.isatty():
        _prompt(settings, form)
        return 0
    elif statement in (None, "-"):
        statement = sys.stdin.read()
    if not statement or not statement.strip():
        raise InvalidRequest('give a statement, like: transcripts sql "SELECT count(*) FROM sessions"')
    with settings.opened() as index:
        result = index.sql(statement)
    _WRITERS[form](result)
    return 0


def _prompt(settings: Settings, form: str) -> None:
    from transcripts.interfaces.cli.asking_sql import ask

    with settings.opened() as index:
        names = [name for table, columns in index.sql_tables().items() for name in (table, *columns)]
        settings.bar.close()
        ask(lambda statement: _WRITERS[form](index.sql(statement)), names)


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


def _write_markdown(result: QueryResult) -> None:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    cells = [[_marked_down(value) for value in row] for row in result.rows]
    numbers = [all(isinstance(row[at], (int, float, type(None))) for row in result.rows) for at in range(len(result.columns))]
    write(line(_marked_down(column) for column in result.columns))
    write(line("---:" if is_number else "---" for is_number in numbers))
    for row in cells:
        write(line(row))


def _marked_down(value: Any) -> str:
    """A value as a cell of a table in Markdown."""
    return "" if value is None else _SIGNS.sub(r"\\\g<0>", one_line(str(_plain(value))))


_WRITERS = {"table": _write_table, "csv": _write_csv, "json": _write_json, "markdown": _write_markdown}
