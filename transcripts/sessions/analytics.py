"""Named questions over the views: tokens and costs by day, week, month, project, model or session, and calls by tool.

Invariants:
- The rows of an answer add up to its total: no reply and no call is in two of them.
- Without a price the cost is None, and the tokens it would be of are told (`unpriced_tokens`): a cost never stands for more
  than it knows.
- Days are those of the database's zone; a week is ISO 8601's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import Connection, text

from transcripts.errors import InvalidRequest
from transcripts.index.settings import Settings, told

BY = ("day", "week", "month", "project", "model", "tool", "session")
_TIMES = ("day", "week", "month")
_KEYS = {"project": "project", "model": "model", "session": "source, project_key, session_id"}
_COUNTS = (
    "input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "total_tokens", "web_searches",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usage:
    """What a number of replies took. `name` is a day, a project's path, a model ... (None: not known, or all).

    `thinking_tokens` are among the output tokens, as far as they were told (None: never). `partial_responses` are those of
    which the final numbers were never written. `cost_usd` is None without a price. By session, `title` is the session's, and
    `client_cost_usd` what the client itself last noted for all of it.
    """

    name: str | None
    responses: int
    input_tokens: int
    output_tokens: int
    thinking_tokens: int | None
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    total_tokens: int
    web_searches: int
    partial_responses: int
    cost_usd: float | None
    unpriced_tokens: int
    title: str | None = None
    client_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The calls of a tool (`name` None: of all): `unanswered` have no result. Durations are milliseconds; of those that are
    timed, half took at most `median_duration`, 95 of 100 at most `p95_duration` (None: none is timed)."""

    name: str | None
    calls: int
    errors: int
    unanswered: int
    median_duration: int | None
    p95_duration: int | None
    total_duration: int


@dataclass(frozen=True, slots=True)
class Stats:
    """An answer: its rows, times ascending, else the largest first; their total; and the zone and prices it goes by."""

    by: str
    rows: tuple[Usage, ...] | tuple[ToolUse, ...]
    total: Usage | ToolUse
    settings: Settings


def stats(
    connection: Connection, by: str, *, since: int | None = None, until: int | None = None, project: str | None = None
) -> Stats:
    """Ask one of the questions. `since` and `until` (not itself in it) are milliseconds UTC; `project` is a path, a part of
    one, or a folder's name. Raises InvalidRequest. Cost: the replies, or calls, that there are."""
    if by not in BY:
        raise InvalidRequest(f"there is nothing by {by!r}; there is: {', '.join(BY)}")
    settings = told(connection)
    if by == "tool":
        rows, total = _tools(connection, *_filters("called_at", since, until, project))
        return Stats(by, rows, total, settings)
    where = _filters("responded_at", since, until, project)
    key = "day" if by in _TIMES else _KEYS[by]
    sums = ", ".join(f"sum({name}) AS {name}" for name in _COUNTS)
    found = connection.execute(
        text(
            f"SELECT {key}, count(*) AS responses, {sums}, count(CASE WHEN is_partial THEN 1 END) AS partial_responses,"
            " sum(cost_usd) AS cost_usd, sum(CASE WHEN cost_usd IS NULL THEN total_tokens ELSE 0 END) AS unpriced_tokens"
            f" FROM v_responses {where[0]} GROUP BY {key}"
        ),
        where[1],
    ).mappings()
    usages = [_usage(row, by) for row in found] if by != "session" else _of_sessions(connection, list(found))
    total_usage = _sum(None, usages)
    if by in _TIMES:
        return Stats(by, tuple(_folded(usages, by)), total_usage, settings)
    largest = sorted(usages, key=lambda one: (-one.total_tokens, one.name or ""))
    return Stats(by, tuple(largest), total_usage, settings)


def _filters(time: str, since: int | None, until: int | None, project: str | None) -> tuple[str, dict[str, Any]]:
    conditions: dict[str, dict[str, Any]] = {}
    if since is not None:
        conditions[f"{time} >= :since"] = {"since": since}
    if until is not None:
        conditions[f"{time} < :until"] = {"until": until}
    if project is not None:
        part = "".join(f"!{sign}" if sign in "!%_" else sign for sign in project)
        conditions["(project LIKE :part ESCAPE '!' OR project_key = :key)"] = {"part": f"%{part}%", "key": project}
    values = {name: value for bound in conditions.values() for name, value in bound.items()}
    return "WHERE " + " AND ".join(conditions) if conditions else "", values


def _usage(row: Mapping[Any, Any], by: str) -> Usage:
    name = row["day" if by in _TIMES else by]
    counted = (*_COUNTS, "responses", "partial_responses")
    numbers: dict[str, Any] = {key: None if row[key] is None else int(row[key]) for key in counted}
    return Usage(name=name, cost_usd=row["cost_usd"], unpriced_tokens=int(row["unpriced_tokens"]), **numbers)


def _of_sessions(connection: Connection, rows: list[Mapping[Any, Any]]) -> list[Usage]:
    known = connection.execute(
        text(
            "SELECT f.source, f.project_key, s.session_id, min(s.title) AS title, max(c.cost_usd) AS cost_usd"
            " FROM sessions AS s JOIN files AS f ON f.id = s.file LEFT JOIN client_costs AS c ON c.file = s.file"
            " GROUP BY f.source, f.project_key, s.session_id"
        )
    )
    about = {tuple(row[:3]): (row.title, row.cost_usd) for row in known}
    found = []
    for row in rows:
        title, cost = about.get((row["source"], row["project_key"], row["session_id"]), (None, None))
        plain = _usage({**row, "session": row["session_id"]}, "session")
        found.append(replace(plain, title=title, client_cost_usd=cost))
    return found


def _folded(days: list[Usage], by: str) -> list[Usage]:
    """The days of each week or month added up, in order; what has no day comes first."""
    spans: dict[str | None, list[Usage]] = {}
    for day in sorted(days, key=lambda one: one.name or ""):
        spans.setdefault(_span(day.name, by), []).append(day)
    return [_sum(name, some) for name, some in spans.items()]


def _span(day: str | None, by: str) -> str | None:
    if day is None or by == "day":
        return day
    if by == "month":
        return day[:7]
    year, week, _weekday = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def _sum(name: str | None, some: Iterable[Usage]) -> Usage:
    rows = list(some)

    def added(field: str) -> Any:
        known = [value for row in rows if (value := getattr(row, field)) is not None]
        return sum(known) if known else None

    counted = (*_COUNTS, "responses", "partial_responses", "unpriced_tokens")
    numbers: dict[str, Any] = {field: added(field) or 0 for field in counted}
    numbers["thinking_tokens"] = added("thinking_tokens")
    cost = added("cost_usd") if rows else 0.0
    return Usage(name=name, cost_usd=cost, client_cost_usd=added("client_cost_usd"), title=None, **numbers)


def _tools(connection: Connection, where: str, values: dict[str, Any]) -> tuple[tuple[ToolUse, ...], ToolUse]:
    calls: dict[str, list[tuple[int | None, bool | None]]] = {}
    for name, duration, is_error in connection.execute(
        text(f"SELECT name, duration, is_error FROM v_tool_calls {where}"), values
    ):
        if name is not None:
            calls.setdefault(name, []).append((duration, is_error))
    rows = [_tool(name, some) for name, some in calls.items()]
    everything = _tool(None, [call for some in calls.values() for call in some])
    return tuple(sorted(rows, key=lambda one: (-one.calls, one.name or ""))), everything


def _tool(name: str | None, calls: list[tuple[int | None, bool | None]]) -> ToolUse:
    durations = sorted(duration for duration, _failed in calls if duration is not None)
    return ToolUse(
        name=name,
        calls=len(calls),
        errors=sum(failed is not None and bool(failed) for _duration, failed in calls),
        unanswered=sum(failed is None for _duration, failed in calls),
        median_duration=_share(durations, 50),
        p95_duration=_share(durations, 95),
        total_duration=sum(durations),
    )


def _share(ascending: list[int], percent: int) -> int | None:
    """The smallest of the values that so many percent of them do not exceed."""
    return ascending[-(-len(ascending) * percent // 100) - 1] if ascending else None
