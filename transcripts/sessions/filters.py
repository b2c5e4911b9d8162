"""What a search is narrowed to: names that people use, turned into tokens of the index and conditions on an entry.

Invariants:
- A filter that can never be met says so, by the name that is unknown; it is not an error.
- What the index can tell by tokens (scope.py) narrows the search before a match is looked at; conditions are asked of the
  matches that are left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from transcripts.errors import InvalidRequest
from transcripts.index import scope
from transcripts.index.schema import SEARCH_COLUMNS, projects, search_spans, session_models, tool_calls
from transcripts.sessions.catalog import Transcript, in_project

KINDS: Final = SEARCH_COLUMNS[:-1]
"""What of a message can be searched: the columns of the index that hold texts."""

ROLES: Final = ("user", "assistant", "system")


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; None asks for nothing. Times are milliseconds UTC, `until` is the first that is too late.

    `sidechains` keeps what sub-agents said, `live` only what stands in the chain that would be resumed, `replaced` also what
    only an older version of a file holds.
    """

    project: str | None = None
    session: Transcript | None = None
    role: str | None = None
    kind: str | None = None
    tool: str | None = None
    model: str | None = None
    branch: str | None = None
    since: int | None = None
    until: int | None = None
    sidechains: bool = True
    live: bool = False
    replaced: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (("role", self.role, ROLES), ("kind", self.kind, KINDS)):
            if value is not None and value not in known:
                raise InvalidRequest(f"there is no {name} {value!r}; there are: {', '.join(known)}")


@dataclass(slots=True)
class Narrowing:
    """The filters in the index's terms: `match` wraps an expression, `conditions` are SQL on an entry `e` of a file `f`.

    Only lines with a time from `since` on and before `until` are wanted, which stand in the `spans` of keys, those with the
    latest times first; `ranges` are these joined, the highest keys first. `impossible` says why nothing can be met.
    """

    kind: str | None = None
    replaced: bool = False
    since: int | None = None
    until: int | None = None
    tokens: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    spans: list[tuple[int, int, int | None]] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    impossible: str | None = None

    @property
    def is_timed(self) -> bool:
        """Whether a time is asked for."""
        return self.since is not None or self.until is not None

    def match(self, expression: str) -> str:
        """The expression with the filters, for MATCH."""
        found = f"{{{self.kind}}} : ({expression})" if self.kind else f"({expression})"
        for tokens in self.tokens:
            found = f"({found}) AND {tokens}"
        return f"({found}) NOT {_any(self.without)}" if self.without else found


def narrowing(connection: Connection, wanted: Filters) -> Narrowing:
    """Look the names up that are asked for. Cost: the projects, tools or models there are, not the messages."""
    found = Narrowing(kind=wanted.kind, replaced=wanted.replaced, since=wanted.since, until=wanted.until)
    if wanted.project is not None:
        _by_project(connection, found, wanted.project)
    if wanted.session is not None:
        _by_session(found, wanted.session)
    if wanted.role is not None:
        found.tokens.append(_any([scope.role(wanted.role)]))
    if wanted.tool is not None:
        names = _names(connection, tool_calls.c.name, func.lower(tool_calls.c.name) == wanted.tool.lower())
        _narrow(found, [scope.tool(name) for name in names], f"no tool is called {wanted.tool!r}")
    if wanted.model is not None:
        names = _names(connection, session_models.c.model, session_models.c.model.icontains(wanted.model, autoescape=True))
        _narrow(found, [scope.model(name) for name in names], f"no model is called {wanted.model!r}")
    if wanted.branch is not None:
        found.tokens.append(_any([scope.branch(wanted.branch)]))
    if not wanted.sidechains:
        found.without.append(scope.SIDECHAIN)
    _by_time(connection, found)
    return found


def _by_project(connection: Connection, found: Narrowing, project: str) -> None:
    rows = connection.execute(select(projects).where(in_project(project))).all()
    _narrow(found, [scope.project(row.source, row.key) for row in rows], f"no project is called {project!r}")
    if _also_elsewhere(connection, rows):  # one folder, several working directories
        keys = ", ".join(str(row.id) for row in rows)
        found.conditions.append(f"EXISTS (SELECT 1 FROM {_MAIN} AND s.project IN ({keys}))")


_MAIN = """sessions AS s JOIN files AS main ON main.id = s.file
    WHERE main.source = f.source AND main.project_key = f.project_key AND main.session_id = f.session_id"""


def _also_elsewhere(connection: Connection, rows: Iterable[Row[Any]]) -> bool:
    chosen = {row.id for row in rows}
    keys = {(row.source, row.key) for row in rows}
    everywhere = connection.execute(select(projects.c.id, projects.c.source, projects.c.key))
    return any((row.source, row.key) in keys and row.id not in chosen for row in everywhere)


def _by_session(found: Narrowing, session: Transcript) -> None:
    if session.session_id is not None:
        found.tokens.append(_any([scope.session(session.session_id)]))
    found.tokens.append(_any([scope.project(session.source, session.project_key)]))
    if session.kind != "main":
        found.conditions.append(f"e.file = {session.file}")


def _by_time(connection: Connection, found: Narrowing) -> None:
    spans = select(search_spans).order_by(search_spans.c.newest.desc().nulls_first())
    for limit, sign, column in ((found.since, ">=", search_spans.c.newest), (found.until, "<", search_spans.c.oldest)):
        if limit is not None:
            spans = spans.where(or_(column.is_(None), column.op(sign)(limit)))
    found.spans = [(span.first, span.last, span.newest) for span in connection.execute(spans)]
    for first, last, _newest in sorted(found.spans, reverse=True):
        if found.ranges and last + 1 >= found.ranges[-1][0]:
            found.ranges[-1] = (first, found.ranges[-1][1])
        else:
            found.ranges.append((first, last))
    found.ranges = found.ranges or [(0, 0)]


def _names(connection: Connection, column: ColumnElement[Any], condition: ColumnElement[bool]) -> list[str]:
    return [name for name in connection.scalars(select(column).where(condition).distinct().order_by(column)) if name]


def _narrow(found: Narrowing, tokens: list[str], otherwise: str) -> None:
    if tokens:
        found.tokens.append(_any(tokens))
    else:
        found.impossible = otherwise


def _any(tokens: Iterable[str]) -> str:
    return "scope : (" + " OR ".join(f'"{token}"' for token in sorted(set(tokens))) + ")"
