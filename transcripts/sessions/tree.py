"""The message tree of a transcript, by query: the walk, and what a walk cannot see.

Invariants:
- Rows are never rewritten. Relinks and prunes are a View: a floor on the offset, a few nodes kept below it, and a few
  parents that differ; they are bound into each query.
- A query fetches what it is asked for: a walk the chain and not the file, whatever stands on dead branches. Where most of
  the file is on the chain, a walk to the root reads it as a Scan, within the bounds of that.
- Walks end at a null parent, at a parent that the view has not, and at a node they have met: no circle runs for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import orjson
from sqlalchemy import Connection

from transcripts.sessions.node import ASSISTANT, BOUNDARY, COLUMNS, Node
from transcripts.sessions.scan import Scan

_NEAR = 64  # lines walked at first in search of one that mostly is near
_BOUND_VALUE = re.compile(r":(\w+)")  # as statements are written here, and SQLite takes them


@dataclass
class Way:
    """How a chain was found: its lines, oldest first, and what was done on the way."""

    lines: list[Node]
    leaf: Node | None
    reason: str
    recovered: set[int] = field(default_factory=set)
    preserved: frozenset[int] = frozenset()
    is_cut: bool = False  # more lines stand above the first
    joins: list[tuple[Node, Node | None, str]] = field(default_factory=list)
    """(line, the line it was joined to or None, why its own parent did not do)."""


# What of a reply can stand beside a chain: its own lines, results, and side lines.
_BESIDE = """(
    m.result_ids IS NOT NULL OR m.type IN ('attachment', 'system') OR (m.type = 'user' AND m.is_meta)
    OR (m.type = 'assistant' AND m.message_id IN (SELECT message_id FROM replies))
)"""

_BELOW = """WITH RECURSIVE below(node) AS (
    SELECT {root} UNION SELECT c.node FROM below JOIN messages AS c ON c.parent = below.node WHERE c.is_sidechain
) SELECT node FROM below"""


@dataclass(frozen=True)
class View:
    """What the rules leave of a file: lines from `floor` on and the `kept` ones below it, with some `parents` changed.

    `position` is the column that tells where a line stands, `gone` are nodes that were taken out, and without `glued` lines
    with something behind them are lost. `sidechain` is the root of a sub-agent's lines inside a main transcript, of which
    then only those below it are left; `is_agent` says that sidechain lines are what the chain is made of.
    """

    floor: int = 0
    kept: frozenset[int] = frozenset()
    parents: dict[int, int | None] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    position: Literal["offset", "first_offset"] = "offset"
    glued: bool = True
    is_agent: bool = False
    sidechain: int | None = None

    def alive(self, alias: str = "m") -> str:
        """The SQL condition on a message. Keys are integers, so they stand in the text: a statement takes any number of them.

        The sign before `file` keeps SQLite from scanning the whole file by its index where single lines are looked up.
        """
        conditions = [f"+{alias}.file = :file", f"{alias}.is_mapped"]
        if not self.glued:
            conditions.append(f"NOT {alias}.is_glued")
        if self.floor:
            conditions.append(f'({alias}."{self.position}" >= {self.floor} OR {alias}.node IN ({_listed(self.kept)}))')
        if self.sidechain is not None:
            conditions.append(f"{alias}.node IN ({_BELOW.format(root=self.sidechain)})")
        if self.gone:
            conditions.append(f"{alias}.node NOT IN ({_listed(self.gone)})")
        return " AND ".join(conditions)

    def lowest(self) -> str:
        """The SQL of an offset before which the view has nothing."""
        if not self.kept:
            return str(self.floor)
        kept = f'SELECT k."offset" FROM messages AS k WHERE k.node IN ({_listed(self.kept)})'
        return f'(SELECT MIN(lines."offset") FROM (SELECT {self.floor} AS "offset" UNION ALL {kept}) AS lines)'

    def on_level(self) -> str:
        """The SQL condition on `m` for what can be a leaf, or be joined to."""
        return "m.is_mapped" if self.is_agent else "NOT m.is_sidechain"

    def parent(self) -> str:
        """The SQL of the parent of `m`."""
        if not self.parents:
            return "m.parent"
        changed = "(SELECT r.parent FROM relinks AS r WHERE r.node = m.node)"
        return f"CASE WHEN m.node IN (SELECT r.node FROM relinks AS r) THEN {changed} ELSE m.parent END"

    def relinks(self) -> str:
        """The changed parents as a common table, or nothing."""
        if not self.parents:
            return ""
        rows = ", ".join(f"({node}, {'NULL' if parent is None else parent})" for node, parent in self.parents.items())
        return f"relinks(node, parent) AS (VALUES {rows}), "


def _listed(keys: Iterable[int]) -> str:
    return ", ".join(map(str, keys)) or "NULL"


class Tree:
    """One transcript through a view. Rows are fetched as Node, file order unless said otherwise."""

    def __init__(self, connection: Connection, file: int, view: View | None = None) -> None:
        self._connection = connection
        self._scan: Scan | None = None
        self._walked = 0  # lines that walks to the root have met
        self.file = file
        self.view = view or View()

    def through(self, view: View) -> Tree:
        """The same transcript through another view."""
        return Tree(self._connection, self.file, view)

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def by_uuid(self, uuids: Collection[str]) -> dict[str, Node]:
        """The lines with these uuids."""
        found: dict[str, Node] = {}
        wanted = list(uuids)
        for at in range(0, len(wanted), 500):
            names = {f"u{number}": uuid for number, uuid in enumerate(wanted[at : at + 500])}
            condition = (
                f"m.node IN (SELECT id FROM nodes WHERE file = :file AND uuid IN ({', '.join(f':{name}' for name in names)}))"
            )
            found.update((node.uuid, node) for node in self._nodes(condition, **names))
        return found

    def key_of(self, uuid: str) -> int | None:
        """The node of a uuid, also of one that was only named as a parent; None for one that no line names."""
        rows = self._rows("SELECT id FROM nodes WHERE file = :file AND uuid = :uuid", uuid=uuid)
        return rows[0][0] if rows else None

    def by_key(self, keys: Collection[int]) -> dict[int, Node]:
        """The lines of these nodes."""
        return {node.key: node for node in self._nodes(f"m.node IN ({_listed(keys)})")} if keys else {}

    def written(self, keys: list[int]) -> dict[int, tuple[Any, ...]]:
        """What else stands on lines: node -> node, parentUuid as written, subtype, timestamp, and the tokens of its usage."""
        statement = f"""
            WITH wanted(node) AS ({self._listed("keys", "BIGINT")})
            SELECT m.node, m.parent_uuid, m.subtype, m.timestamp,
                   m.input_tokens, m.output_tokens, m.cache_read_tokens, m.cache_write_tokens
            FROM wanted JOIN messages AS m ON m.node = wanted.node
        """
        return {row[0]: row for row in self._rows(statement, keys=self._list(keys))}

    def first_written(self, keys: Collection[int]) -> dict[int, tuple[int | None, int]]:
        """When and where lines stood first: node -> timestamp, and the offset of the first line with its uuid."""
        rows = self._rows(f"SELECT m.node, m.timestamp, m.first_offset FROM messages AS m WHERE m.node IN ({_listed(keys)})")
        return {row[0]: (row[1], row[2]) for row in rows}

    def last_first(self, before: int | None, limit: int) -> list[Node]:
        """The last lines that are no sidechain, the last one first; those that stand before an offset."""
        below = f'AND m."offset" < {before}' if before is not None else ""
        return self._nodes(f'm.file = :file AND {self.view.on_level()} {below} ORDER BY m."offset" DESC LIMIT {limit}')

    def newest(self, *, later_wins: bool) -> Node | None:
        """The line with the newest timestamp that is no sidechain; of equals the later in the file, or the first."""
        order = f'm."{self.view.position}" {"DESC" if later_wins else "ASC"}'
        found = self._nodes(
            f"m.file = :file AND {self.view.on_level()} AND m.timestamp IS NOT NULL ORDER BY m.timestamp DESC, {order} LIMIT 1"
        )
        return found[0] if found else None

    def joinable(self, node: Node, window: int, met: Collection[int]) -> Node | None:
        """The newest line at most `window` milliseconds older than a line, of equals the first, that was not met yet."""
        timestamp, _first_offset = self.first_written([node.key])[node.key]
        if timestamp is None:
            return None
        within = f"m.timestamp BETWEEN {timestamp - window} AND {timestamp}"
        condition = f'm.file = :file AND {within} AND {self.view.on_level()} ORDER BY m.timestamp DESC, m."offset"'
        for row in self._rows(self._select(condition)):
            if row[0] not in met:
                return Node._make(row)
        return None

    @cached_property
    def boundaries(self) -> list[tuple[Node, str | None]]:
        """The compact boundaries in file order, with what they preserve as JSON (None: nothing)."""
        rows = self._rows(
            "SELECT b.node, b.preserved FROM boundaries AS b "
            "JOIN messages AS m ON m.node = b.node AND m.entry = b.entry WHERE b.file = :file"
        )
        preserved = {row[0]: row[1] for row in rows}
        of_file = f'm.node IN (SELECT node FROM boundaries WHERE file = :file) ORDER BY +m."{self.view.position}"'
        return [(node, preserved.get(node.key)) for node in self._nodes(of_file) if node.flags & BOUNDARY]

    def children(self, node: int) -> list[Node]:
        """The lines that hang directly on a node."""
        relinked = [child for child, parent in self.view.parents.items() if parent == node]
        moved = f"AND m.node NOT IN ({_listed(self.view.parents)})" if self.view.parents else ""
        return self._nodes(f'((m.parent = {node} {moved}) OR m.node IN ({_listed(relinked)})) ORDER BY +m."offset"')

    def snips(self) -> set[str]:
        """The uuids that the lines of the view name as removed."""
        condition = f"s.node = m.node AND s.entry = m.entry AND {self.view.alive()}"
        rows = self._rows(f"SELECT s.removed FROM snips AS s JOIN messages AS m ON {condition} WHERE s.file = :file")
        return {uuid for row in rows for uuid in orjson.loads(row[0])}

    def late_progress(self) -> bool:
        """Whether a line names a progress line that stands behind it, or a progress line shares its uuid with a message."""
        statement = """
            SELECT EXISTS (
                SELECT 1 FROM nodes AS p JOIN entries AS e ON e.id = p.progress
                WHERE p.file = :file AND (
                    EXISTS (SELECT 1 FROM messages AS m WHERE m.node = p.id)
                    OR EXISTS (
                        SELECT 1 FROM messages AS m
                        WHERE m.parent_uuid = p.uuid AND m.file = :file AND m."offset" < e."offset"
                    )
                    OR EXISTS (
                        SELECT 1 FROM nodes AS q JOIN entries AS f ON f.id = q.progress
                        WHERE q.bridge = p.id AND q.file = :file AND f."offset" < e."offset"
                    )
                )
            )
        """
        return any(row[0] for row in self._rows(statement))

    def progress(self) -> list[tuple[int, int, int | None]]:
        """The progress lines in file order: offset, node, and the node of the parent."""
        statement = """
            SELECT e."offset", n.id, n.bridge FROM nodes AS n JOIN entries AS e ON e.id = n.progress
            WHERE n.file = :file ORDER BY e."offset"
        """
        return [(row[0], row[1], row[2]) for row in self._rows(statement)]

    def named_parents(self, nodes: Collection[int]) -> list[tuple[int, int, int]]:
        """The messages that name one of these nodes as their parent: offset, node, and the node named."""
        statement = f"""
            SELECT m."offset", m.node, n.id FROM messages AS m JOIN nodes AS n ON n.uuid = m.parent_uuid AND n.file = m.file
            WHERE m.file = :file AND n.id IN ({_listed(nodes)})
        """
        return [(row[0], row[1], row[2]) for row in self._rows(statement)]

    def adopted(self, floor: int, kept: Collection[int]) -> list[Node]:
        """The lines from an offset on whose parent stands before it and is not kept. Cost: the lines from there on."""
        parent = f'SELECT 1 FROM messages AS p WHERE p.node = m.parent AND p."offset" < {floor} AND {self.view.alive("p")}'
        spared = f"AND m.node NOT IN ({_listed(kept)}) AND m.parent NOT IN ({_listed(kept)})"
        return self._nodes(f'm.file = :file AND m."offset" >= {floor} {spared} AND EXISTS ({parent})')

    # -- ways ------------------------------------------------------------------------------------------------------------

    def walk(self, start: int, limit: int | None = None) -> list[Node]:
        """The line of a node and its ancestors, up to `limit` of them; empty when the view has no such line."""
        way: dict[int, Node] = {}
        at: int | None = start
        if limit is None:
            self._scan = scan = self._scan or Scan(self._read_back)
            at = _followed(at, scan.lines, way)
            while at is not None and scan.goes_on(self._walked + len(way)):
                at = _followed(at, scan.lines, way)
            self._walked += len(way)
            if scan.is_whole:
                at = None
        if at is not None:
            _followed(at, self._ancestors(at, limit), way)
        return list(way.values())

    def walk_until(self, start: int, is_found: Callable[[Node], bool]) -> list[Node]:
        """The walk from a node at least as far as the first line that is looked for; all of it when there is none."""
        limit = _NEAR
        while True:
            way = self.walk(start, limit)
            if len(way) < limit or any(map(is_found, way)):
                return way
            limit *= 16

    def _ancestors(self, start: int, limit: int | None) -> dict[int, Node]:
        """The lines that a walk from a node meets, by a query that goes from each to its parent."""
        alive, parent = self.view.alive(), self.view.parent()
        depth, next_depth, bound = ("", "", "") if limit is None else (", 1", ", walk.depth + 1", f"AND walk.depth < {limit}")
        statement = f"""
            WITH RECURSIVE {self.view.relinks()}walk(node, parent{", depth" if depth else ""}) AS (
                SELECT m.node, {parent}{depth} FROM messages AS m WHERE m.node = :start AND {alive}
                UNION
                SELECT m.node, {parent}{next_depth} FROM walk JOIN messages AS m ON m.node = walk.parent WHERE {alive} {bound}
            )
            SELECT {COLUMNS.format(parent="walk.parent")} FROM walk JOIN messages AS m ON m.node = walk.node
        """
        return {row[0]: Node._make(row) for row in self._rows(statement, start=start)}

    def _read_back(self, before: int | None, count: int) -> list[Node]:
        """Lines in file order, the last first."""
        end = "" if before is None else f'AND m."offset" < {before}'
        place = f'm.file = :file {end} AND m."offset" >= {self.view.lowest()}'
        return self._nodes(f'{place} ORDER BY m."offset" DESC LIMIT {count}')

    def beside(self, chain: dict[int, Node]) -> list[Node]:
        """What a walk cannot see of its replies: the other lines of the chain's message ids, the results of all of them, and
        the side lines below; more may come along. In file order, without the lines of the chain.

        What a scan has not brought comes by one grouped query. Cost: one look into an index for each line of the chain, and
        the rows found; the cross joins keep SQLite from starting at the other end.
        """
        if self._scan is not None:
            while self._scan.goes_on(len(chain)):
                pass
            if self._scan.is_whole:
                return [node for key, node in reversed(self._scan.lines.items()) if key not in chain]
        alive, parent = self.view.alive(), self.view.parent()
        values = {
            "keys": self._list(list(chain)),
            "ids": self._list(list({node.message_id for node in chain.values() if node.message_id and node.flags & ASSISTANT})),
        }
        statement = f"""
            WITH RECURSIVE {self.view.relinks()}chain(node) AS MATERIALIZED ({self._listed("keys", "BIGINT")}),
            replies(message_id) AS MATERIALIZED ({self._listed("ids", "TEXT")}),
            met(node) AS (
                SELECT m.node FROM chain CROSS JOIN messages AS m WHERE m.parent = chain.node
                UNION ALL SELECT m.node FROM chain CROSS JOIN messages AS m WHERE m.source = chain.node
                UNION ALL SELECT m.node FROM replies CROSS JOIN messages AS m
                WHERE m.message_id = replies.message_id AND m.file = :file
                {self._relinked_below("chain")}
            ),
            beside(node) AS (
                SELECT m.node FROM (SELECT DISTINCT node FROM met WHERE node NOT IN (SELECT node FROM chain)) AS off_chain
                CROSS JOIN messages AS m WHERE m.node = off_chain.node AND {_BESIDE}
                UNION SELECT m.node FROM beside CROSS JOIN messages AS m
                WHERE ({self._hangs_on("beside.node")} OR m.source = beside.node)
                  AND m.node NOT IN (SELECT node FROM chain) AND {_BESIDE}
            )
            SELECT {COLUMNS.format(parent=parent)} FROM beside CROSS JOIN messages AS m
            WHERE m.node = beside.node AND {alive} ORDER BY +m."offset"
        """
        return list(map(Node._make, self._rows(statement, **values)))

    def above_turns(self, nodes: Collection[int]) -> set[int]:
        """Those of the nodes that have an assistant line or a user's words anywhere below them."""
        if not nodes:
            return set()
        alive = self.view.alive()
        statement = f"""
            WITH RECURSIVE {self.view.relinks()}below(top, node) AS (
                SELECT m.node, m.node FROM messages AS m WHERE m.node IN ({_listed(nodes)})
                UNION SELECT below.top, m.node FROM below JOIN messages AS m ON {self._hangs_on("below.node")} WHERE {alive}
            )
            SELECT DISTINCT below.top FROM below JOIN messages AS m ON m.node = below.node
            WHERE below.node <> below.top
              AND (m.type = 'assistant' OR (m.type = 'user' AND NOT m.is_meta AND m.result_ids IS NULL))
        """
        return {row[0] for row in self._rows(statement)}

    # -- lists -----------------------------------------------------------------------------------------------------------

    def _list(self, values: list[Any]) -> Any:
        """A long list as one bound value: JSON for SQLite, an array for PostgreSQL."""
        return orjson.dumps(values).decode() if self._connection.dialect.name == "sqlite" else values

    def _listed(self, name: str, kind: str) -> str:
        """The query that gives the items of such a list."""
        if self._connection.dialect.name == "sqlite":
            return f"SELECT value FROM json_each(:{name})"
        return f"SELECT unnest(CAST(:{name} AS {kind}[]))"

    # -- queries ---------------------------------------------------------------------------------------------------------

    def _hangs_on(self, node: str) -> str:
        if not self.view.parents:
            return f"m.parent = {node}"
        moved = _listed(self.view.parents)
        relinked = f"SELECT r.node FROM relinks AS r WHERE r.parent = {node}"
        return f"((m.parent = {node} AND m.node NOT IN ({moved})) OR m.node IN ({relinked}))"

    def _relinked_below(self, chain: str) -> str:
        if not self.view.parents:
            return ""
        return f"UNION ALL SELECT r.node FROM {chain} CROSS JOIN relinks AS r WHERE r.parent = {chain}.node"

    def _select(self, condition: str) -> str:
        with_relinks = self.view.relinks().rstrip(", ")
        head = f"WITH {with_relinks} " if with_relinks else ""
        columns = COLUMNS.format(parent=self.view.parent())
        return f"{head}SELECT {columns} FROM messages AS m WHERE {self.view.alive()} AND {condition}"

    def _nodes(self, condition: str, **values: Any) -> list[Node]:
        return list(map(Node._make, self._rows(self._select(condition), **values)))

    def _rows(self, statement: str, **values: Any) -> list[Any]:
        """The rows as the driver gives them: what SQLAlchemy makes of them would cost as much as the query."""
        if self._connection.dialect.name != "sqlite":
            statement = _BOUND_VALUE.sub(r"%(\1)s", statement)
        result = self._connection.exec_driver_sql(statement, {"file": self.file, **values})
        return list(result.cursor.fetchall()) if result.cursor is not None else []


def _followed(at: int | None, lines: dict[int, Node], way: dict[int, Node]) -> int | None:
    """Walk on as far as these lines reach; the node that is not among them, or None at the end of all: no parent, a circle."""
    while at is not None and (node := lines.get(at)) is not None:
        if at in way:
            return None
        way[at] = node
        at = node.parent
    return at
