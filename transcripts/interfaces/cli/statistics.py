"""`stats`: tokens, costs and calls as a table with bars, for a program, or as a chart.

Invariants:
- What has no price is never told as if it cost nothing: a cost that is not known is a question mark, one that knows only a
  part ends with a plus, and standard error says how many tokens are meant.
- On a terminal numbers are rounded and fit the width; in a pipe, in CSV and in JSON they are exact.
- The total is that of all rows, also of those that are not shown.
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import InvalidRequest
from transcripts.interfaces.cli import times
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.options import Settings, common, pass_settings
from transcripts.interfaces.cli.output import console, count, cut, home_shortened, one_line, safe, say, width, write, write_json

if TYPE_CHECKING:
    from transcripts.sessions.analytics import Stats, ToolUse, Usage

_BY = ["day", "week", "month", "project", "model", "tool", "session"]
TIMES = ("day", "week", "month")
_SHOWN = 30  # rows on a terminal
_WIDE = 120  # columns from which on every kind of token has its own
_NAME, _BAR, _GAP = 40, 8, 2  # columns that a name takes at most, a bar at least, and that stand between two
_STEPS = "▁▂▃▄▅▆▇█"
_LONGEST = 366  # steps in a pipe

Column = tuple[str, Callable[[Any], str]]


@click.command()
@click.option("--by", type=click.Choice(_BY), default="day", show_default=True, help="What makes a row.")
@click.option("--since", callback=times.since, metavar="TIME", help="Only what was said since then: 7d, yesterday, 2026-03-09.")
@click.option("--until", callback=times.until, metavar="TIME", help="Only what was said until then.")
@click.option("--project", metavar="TEXT", help="Only projects whose path has this in it, or whose folder is called so.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many rows; 0 is all (30 on a terminal, else all).")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV, with all numbers.")
@click.option("--png", metavar="FILE", help="Draw a chart into a new file (needs the extra: plot).")
@click.option("--prices", "prices_from", metavar="FILE", help="Take prices from here, from now on; `shipped` goes back.")
@common
@pass_settings
def stats(
    settings: Settings,
    by: str,
    since: int | None,
    until: int | None,
    project: str | None,
    limit: int | None,
    as_csv: bool,
    png: str | None,
    prices_from: str | None,
) -> int:
    """Count tokens, costs and tool calls.

    Each reply counts once, whatever was forked, copied, rewritten or deleted; sub-agents count for their session. Days are
    those of your time zone.

    \b
    Examples:
      transcripts stats --since 7d
      transcripts stats --by model --project orchard
      transcripts stats --by tool --json
    """
    if as_csv and settings.json:
        raise InvalidRequest("--json and --csv exclude each other")
    with settings.opened() as index:
        found = index.stats(by, since=since, until=until, project=project, prices_from=prices_from)
    if png is not None:
        from transcripts.interfaces.cli.charts import draw

        draw(found, png)
        say(f"Drawn: {png}")
    if limit is None and sys.stdout.isatty() and not settings.json and not as_csv:
        limit = _SHOWN
    rows = found.rows[-limit:] if limit and by in TIMES else found.rows[: limit or None]
    if settings.json:
        _write_json(found, rows)
    elif as_csv:
        _write_csv(found, rows)
    elif rows:
        _write_table(found, rows)
    if not rows:
        what = "No tool was called" if by == "tool" else "Nothing was said"
        say(f"{what} there." if any((since, until, project)) else f"{what} yet; to import transcripts: transcripts sync")
        return NOTHING_OR_PROBLEMS
    if not settings.json and not as_csv:
        _tell(found, len(rows))
    return 0


# -- for programs ----------------------------------------------------------------------------------------------------------


def _write_json(found: Stats, rows: tuple[Any, ...]) -> None:
    for row in rows:
        write_json({"by": found.by, **_plain(row)})
    about = {"zone": found.settings.zone, "prices": found.settings.prices, "prices_date": found.settings.prices_date}
    write_json({"by": "total", **_plain(found.total), **about})


def _plain(row: Usage | ToolUse) -> dict[str, Any]:
    return dataclasses.asdict(row)


def _write_csv(found: Stats, rows: tuple[Any, ...]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    names = [field.name for field in dataclasses.fields(found.total)]
    out.writerow([found.by, *names[1:]])
    shown = sys.stdout.isatty()
    for row in rows:
        values = [getattr(row, name) for name in names]
        out.writerow([safe(value) if shown and isinstance(value, str) else value for value in values])


# -- for people ------------------------------------------------------------------------------------------------------------


def _write_table(found: Stats, rows: tuple[Any, ...]) -> None:
    from rich.bar import Bar
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    room, exact = width(), not sys.stdout.isatty()
    columns = _columns(found.by, room, exact)
    if found.by in TIMES and len(rows) > 1 and (small := _line_of(found, room)):
        write(small)
    lines = [[text(row) for _title, text in columns] for row in (*rows, found.total)]
    taken = sum(_GAP + max(len(title), *(len(line[at]) for line in lines)) for at, (title, _text) in enumerate(columns))
    names = [_name(found.by, row, exact) for row in rows]
    longest = max(map(cell_len, [found.by, "total", *names]))
    if not exact:
        longest = max(len("total"), min(longest, _NAME, room - taken))
        names = [(cut_front if found.by == "project" else cut)(name, longest) for name in names]
    has_bar = not exact and room - taken - longest >= _GAP + _BAR
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0), expand=has_bar)
    table.add_column(found.by, overflow="ellipsis", no_wrap=True, width=longest)
    for title, _text in columns:
        table.add_column(title, justify="right", no_wrap=True)
    if has_bar:
        table.add_column("", ratio=1)
    largest = max(map(_size, rows))
    for name, row, line in zip(names, rows, lines, strict=False):
        table.add_row(Text(name), *line, *([Bar(largest or 1, 0, _size(row), color="cyan")] if has_bar else []))
    table.add_row("total", *lines[-1], *([""] if has_bar else []), style="bold")
    shown = console()
    if exact:
        shown.width = max(shown.width, taken + longest)  # a program reads it: no number is cut
    shown.print(table)


def _columns(by: str, room: int, exact: bool) -> list[Column]:
    """The columns that there is room for."""
    number: Callable[[int | None], str] = (lambda value: f"{value or 0:,}") if exact else short
    if by == "tool":
        return [
            ("calls", lambda row: number(row.calls)),
            ("errors", lambda row: number(row.errors)),
            ("unanswered", lambda row: number(row.unanswered)),
            ("median", lambda row: _span(row.median_duration)),
            ("95 %", lambda row: _span(row.p95_duration)),
            *([("all", lambda row: _span(row.total_duration))] if room >= _WIDE else []),
        ]
    wide = room >= _WIDE
    cache: list[Column] = [("cached", lambda row: number(row.cache_read_tokens + _written(row)))]
    if wide:
        cache = [("cache read", lambda row: number(row.cache_read_tokens)), ("cache write", lambda row: number(_written(row)))]
    return [
        ("replies", lambda row: number(row.responses)),
        ("input", lambda row: number(row.input_tokens)),
        ("output", lambda row: number(row.output_tokens)),
        *([("thinking", lambda row: "-" if row.thinking_tokens is None else number(row.thinking_tokens))] if wide else []),
        *cache,
        ("cost", _cost),
        *([("client says", lambda row: _dollars(row.client_cost_usd))] if by == "session" else []),
    ]


def _written(row: Usage) -> int:
    return row.cache_write_5m_tokens + row.cache_write_1h_tokens


def _size(row: Any) -> float:
    return float(row.total_tokens if hasattr(row, "total_tokens") else row.calls)


def _name(by: str, row: Any, exact: bool) -> str:
    if row.name is None:
        return "(unknown)"
    if by == "session" and not exact:
        return f"{row.name[:8]} {one_line(row.title or '')}".rstrip()
    if by == "project" and not exact:
        return one_line(home_shortened(row.name))
    return one_line(row.name)


def cut_front(text: str, cells: int) -> str:
    """A path of at most so many columns: its end, since that tells more than its beginning."""
    from rich.cells import cell_len

    if cell_len(text) <= cells:
        return text
    at = max(0, len(text) - cells + 1)
    while cell_len(text[at:]) >= cells:
        at += 1
    return "…" + text[at:]


def steps(by: str, names: list[str]) -> list[str]:
    """Every day, week or month from the first to the last of some, also those in which nothing was said."""
    first, last = min(names), max(names)
    if by == "month":
        begin, end = (12 * int(name[:4]) + int(name[5:]) - 1 for name in (first, last))
        return [f"{at // 12}-{at % 12 + 1:02}" for at in range(begin, end + 1)]
    if by == "week":
        monday, end = (date.fromisocalendar(int(name[:4]), int(name[6:]), 1).toordinal() for name in (first, last))
        weeks = (date.fromordinal(at).isocalendar() for at in range(monday, end + 1, 7))
        return [f"{year}-W{week:02}" for year, week, _weekday in weeks]
    days = range(date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal() + 1)
    return [str(date.fromordinal(at)) for at in days]


def _line_of(found: Stats, room: int) -> str:
    """All rows as a line of small bars between the first and the last time, as many as there is room for; '' for one time."""
    known = {row.name: _size(row) for row in found.rows if row.name is not None}
    if len(known) < 2:
        return ""
    names = steps(found.by, [*known])[-min(max(1, room - 2 * len("2026-03-09 ")), _LONGEST) :]
    most = max(known.get(name, 0) for name in names) or 1
    heights = (known.get(name, 0) / most * len(_STEPS) for name in names)
    line = "".join(_STEPS[min(len(_STEPS) - 1, int(height))] if height else " " for height in heights)
    return f"{names[0]} {line} {names[-1]}"


def short(number: int | None) -> str:
    """A number for people: 999, 12.3k, 4.6M."""
    value = float(number or 0)
    for unit in ("", "k", "M", "G"):
        if value < 999.5 or unit == "G":
            break
        value /= 1000
    return f"{value:.0f}{unit}" if not unit or value >= 99.95 else f"{value:.1f}{unit}"


def _cost(row: Usage) -> str:
    return _dollars(row.cost_usd, "?") + ("+" if row.cost_usd is not None and row.unpriced_tokens else "")


def _dollars(value: float | None, unknown: str = "") -> str:
    if value is None:
        return unknown
    return f"${value:,.4f}" if 0 < value < 0.095 else f"${value:,.2f}"


def _span(milliseconds: int | None) -> str:
    """A duration for people."""
    if milliseconds is None:
        return "-"
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _tell(found: Stats, shown: int) -> None:
    """What the numbers do not say by themselves."""
    if shown < len(found.rows):
        say(f"{shown} of {count(len(found.rows), 'row')}; all of them: --limit 0")
    total: Any = found.total
    if found.by == "tool":
        return
    if total.unpriced_tokens:
        say(f"Of {total.unpriced_tokens:,} tokens no price is known (see --by model); they are in no cost.")
    if total.partial_responses:
        say(f"Of {count(total.partial_responses, 'reply')} the final numbers were never written: they are what was told last.")
    whose = "the shipped ones" if found.settings.prices == "shipped" else found.settings.prices
    say(f"Prices: {whose}, of {found.settings.prices_date}. Days: {found.settings.zone}.")
