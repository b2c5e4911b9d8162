"""The lines that match an expression and its filters, as the index tells them: best first, newest first, or only how many.

Invariants:
- Lines are asked for in portions, only as many as are taken; no line is given twice and none is left out.
- The work of ranking is bounded: a portion of the best is the newest RANKED lines that are left, ranked among themselves. So a
  common word costs no more than a rare one, and all lines that match come in the end.
- By time the order is exact: a span of keys is looked into as soon as one of its lines could be next.
- A title has no time of its own: it has that of the last activity of its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from transcripts.index import scope
from transcripts.index.text import TITLE_FIELDS
from transcripts.sessions.filters import Narrowing

RANKED = 1000
_WEIGHTS = "8, 5, 6, 5, 2, 1.5, 1, 0"  # title, summary, prompt, reply, thinking, tool, result, scope: words above tool noise
_RECENT = 0.3  # by how much a match of today counts more ...
_HALF_LIFE = 90 * 24 * 3600 * 1000  # ... and how many milliseconds of age halve that

_FROM = "FROM search CROSS JOIN entries AS e ON e.id = search.rowid CROSS JOIN files AS f ON f.id = e.file"
_TITLES = ", ".join(f"'{kind}'" for kind in (*TITLE_FIELDS, "summary"))
_ACTIVITY = "(SELECT s.last_activity_at FROM sessions AS s WHERE s.file = e.file)"
_TIME = f"CASE WHEN e.type IN ({_TITLES}) THEN {_ACTIVITY} ELSE e.timestamp END"


class Match(NamedTuple):
    """A line that matches: its entry and file, its time in milliseconds UTC, and how good it is (higher is better)."""

    entry: int
    file: int
    timestamp: int | None
    score: float


class Matching:
    """An expression and its filters. `approximate` says, once the best were asked for, that not all were ranked together."""

    def __init__(self, connection: Connection, expression: str, narrow: Narrowing) -> None:
        self._connection = connection
        self._narrow = narrow
        self._expression = expression
        self.approximate = False

    def best(self, now: int) -> Iterator[Match]:
        """All lines that match, in portions of RANKED from the newest on, each best first."""
        waiting = [*self._titles("bm25(search, {})")] if self._narrow.is_timed else []
        for first, last in self._narrow.ranges:
            while last >= first:
                room = max(1, RANKED - len(waiting))
                rows = self._rows("bm25(search, {})", first, last, f"ORDER BY search.rowid DESC LIMIT {room + 1}")
                waiting += rows[:room]
                if len(rows) <= room:
                    break
                self.approximate, last = True, rows[room - 1][0] - 1
                yield from _ranked(waiting, now)
                waiting = []
        yield from _ranked(waiting, now)

    def newest(self) -> Iterator[Match]:
        """All lines that match, by their time, the newest first."""
        heap = [_by_time(row) for row in self._titles("0.0")]
        heapify(heap)
        for first, last, latest in self._few() or self._narrow.spans:
            while heap and latest is not None and -heap[0][0] >= latest:
                yield heappop(heap)[2]
            for row in self._rows("0.0", first, last, titles=False):
                heappush(heap, _by_time(row))
        while heap:
            yield heappop(heap)[2]

    def _few(self) -> list[tuple[int, int, int | None]]:
        """All spans as one, where it takes less to look at all lines that match than at the spans one by one."""
        if self._narrow.is_timed:
            return []
        query = "SELECT rowid FROM search WHERE search MATCH ? LIMIT 1 OFFSET ?"
        many = self._connection.exec_driver_sql(query, (self._narrow.match(self._expression), RANKED)).first()
        return [] if many else [(0, 2**62, None)]

    def count(self) -> int:
        """How many messages match: a message of several lines counts once, a title as often as it was changed."""
        message = 'LEFT JOIN messages AS said ON said.file = e.file AND said."offset" = e."offset"'
        title = f"WHEN e.type IN ({_TITLES}) THEN e.file || ' ' || e.crc"
        one = f"CASE {title} WHEN said.message_id IS NULL THEN e.id ELSE e.file || said.message_id END"
        return self._count(f"DISTINCT {one}", message, self._narrow.match(self._expression))

    def count_in(self, source: str, project_key: str, session_id: str | None) -> int:
        """How many lines of a session match."""
        tokens = [scope.project(source, project_key), *([scope.session(session_id)] if session_id is not None else [])]
        within = " AND ".join(f'scope : "{token}"' for token in tokens)
        return self._count("*", "", f"({self._narrow.match(self._expression)}) AND {within}")

    def any(self, match: str | None = None) -> bool:
        """Whether anything matches the expression, or another, whatever the filters."""
        query = "SELECT 1 FROM search WHERE search MATCH ? LIMIT 1"
        return self._connection.exec_driver_sql(query, (match or self._expression,)).first() is not None

    # -- statements --------------------------------------------------------------------------------------------------------

    def _count(self, what: str, join: str, match: str) -> int:
        condition, params = self._condition(titles=None)
        standing = "" if self._narrow.replaced else "AND f.state <> 'replaced'"
        query = f"SELECT count({what}) {_FROM} {join} WHERE search MATCH ? {condition} {standing}"
        return int(self._connection.exec_driver_sql(query, (match, *params)).scalar_one())

    def _rows(self, score: str, first: int, last: int, order: str = "", titles: bool | None = None) -> Sequence[Any]:
        """The lines with these keys; `titles` are all that is wanted, or not wanted, or, where no time is asked for, both."""
        titles = False if titles is None and self._narrow.is_timed else titles
        condition, params = self._condition(titles)
        query = (
            f"SELECT search.rowid, e.file, {_TIME}, {score.format(_WEIGHTS)} {_FROM} "
            f"WHERE search MATCH ? AND search.rowid BETWEEN ? AND ? {condition} {order}"
        )
        match = self._narrow.match(f"{{title summary}} : ({self._expression})" if titles else self._expression)
        return self._connection.exec_driver_sql(query, (match, first, last, *params)).all()

    def _titles(self, score: str) -> Sequence[Any]:
        """The titles among the lines: few, whose time is not that of the span they stand in."""
        return self._rows(score, 0, 2**62, titles=True)

    def _condition(self, titles: bool | None) -> tuple[str, tuple[Any, ...]]:
        conditions, params = [*self._narrow.conditions], [*self._narrow.params]
        if titles is not None:
            conditions.append(f"e.type {'' if titles else 'NOT '}IN ({_TITLES})")
        time = {True: _ACTIVITY, False: "e.timestamp", None: _TIME}[titles]
        for limit, sign in ((self._narrow.since, ">="), (self._narrow.until, "<")):
            if limit is not None:
                conditions.append(f"{time} {sign} ?")
                params.append(limit)
        return "".join(f" AND {condition}" for condition in conditions), tuple(params)


def _ranked(rows: Sequence[Any], now: int) -> list[Match]:
    oldest = min((row[2] for row in rows if row[2] is not None), default=now)
    found = [
        Match(row[0], row[1], row[2], -row[3] * (1 + _RECENT * 0.5 ** (max(0, now - (row[2] or oldest)) / _HALF_LIFE)))
        for row in rows
    ]
    return sorted(found, key=attrgetter("score", "entry"), reverse=True)


def _by_time(row: Any) -> tuple[int, int, Match]:
    return -(row[2] or 0), -row[0], Match(*row)
