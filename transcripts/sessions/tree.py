"""The message tree of a transcript, by query: the walk, and what a walk cannot see.

Invariants:
- Rows are never rewritten. Relinks and prunes are a View: a floor on the offset, a few nodes kept below it, and a few
  parents that differ; they are bound into each query.
- A query fetches what it is asked for: a walk the chain and not the file, whatever stands on dead branches.
- Walks end at a null parent, at a parent that the view has not, and at a node they have met: no circle runs for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import orjson
from sqlalchemy import Connection, text


class Node(NamedTuple):
    """A message as the rules see it; `parent` is the one of the view. The flags are those of the table `messages`."""

    key: int
    parent: int | None
    source: int | None
    offset: int
    first_offset: int
    length: int
    crc: int
    uuid: str
    type: str
    subtype: str | None
    timestamp: int | None
    message_id: str | None
    is_meta: bool
    is_sidechain: bool
    call_ids: str | None
    result_ids: str | None
    thinking_only: bool
    blank: bool
    empty_content: bool

    @property
    def is_turn(self) -> bool:
        """A user or assistant line."""
        return self.type in ("user", "assistant")

    @property
    def is_result(self) -> bool:
        """A user line that holds a tool result."""
        return self.result_ids is not None

    @property
    def is_side(self) -> bool:
        """An attachment, a system line, or a meta user line without a result."""
        return self.type in ("attachment", "system") or (self.type == "user" and self.is_meta and not self.is_result)

    @property
    def calls(self) -> list[str]:
        """The ids of the calls it makes."""
        return orjson.loads(self.call_ids) if self.call_ids else []

    @property
    def answers(self) -> list[str]:
        """The ids of the calls it answers."""
        return orjson.loads(self.result_ids) if self.result_ids else []


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


_COLUMNS = """m.node, {parent}, m.source, m."offset", m.first_offset, m.length, m.crc, m.uuid, m.type, m.subtype,
    m.timestamp, m.message_id, m.is_meta, m.is_sidechain, m.call_ids, m.result_ids, m.thinking_only, m.blank, m.empty_content"""


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
        """What else stands on lines: node -> parentUuid as written, and the tokens of its usage."""
        statement = f"""
            WITH wanted(node) AS ({self._listed("keys", "BIGINT")})
            SELECT m.node, m.parent_uuid, m.input_tokens, m.output_tokens, m.cache_read_tokens, m.cache_write_tokens
            FROM wanted JOIN messages AS m ON m.node = wanted.node
        """
        return {row[0]: row[1:] for row in self._rows(statement, keys=self._list(keys))}

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
        if node.timestamp is None:
            return None
        within = f"m.timestamp BETWEEN {node.timestamp - window} AND {node.timestamp}"
        condition = f'm.file = :file AND {within} AND {self.view.on_level()} ORDER BY m.timestamp DESC, m."offset"'
        for row in self._rows(self._select(condition)):
            if row[0] not in met:
                return Node._make(row)
        return None

    @cached_property
    def boundaries(self) -> list[tuple[Node, str | None]]:
        """The compact boundaries, with what they preserve as JSON (None: nothing)."""
        found = {node.key: node for node in self._nodes("m.node IN (SELECT node FROM boundaries WHERE file = :file)")}
        rows = self._rows(
            "SELECT b.node, b.preserved FROM boundaries AS b "
            "JOIN messages AS m ON m.node = b.node AND m.entry = b.entry WHERE b.file = :file"
        )
        preserved = {row[0]: row[1] for row in rows}
        return [
            (node, preserved.get(key))
            for key, node in sorted(found.items(), key=lambda item: getattr(item[1], self.view.position))
            if node.subtype == "compact_boundary"
        ]

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
        alive, parent = self.view.alive(), self.view.parent()
        depth, next_depth, bound = ("", "", "") if limit is None else (", 1", ", walk.depth + 1", f"AND walk.depth < {limit}")
        statement = f"""
            WITH RECURSIVE {self.view.relinks()}walk(node, parent{", depth" if depth else ""}) AS (
                SELECT m.node, {parent}{depth} FROM messages AS m WHERE m.node = {start} AND {alive}
                UNION
                SELECT m.node, {parent}{next_depth} FROM walk JOIN messages AS m ON m.node = walk.parent WHERE {alive} {bound}
            )
            SELECT {_COLUMNS.format(parent="walk.parent")} FROM walk JOIN messages AS m ON m.node = walk.node
        """
        found = {row[0]: row for row in self._rows(statement)}
        way: list[Node] = []
        at: int | None = start
        while (row := found.pop(at, None)) is not None:
            way.append(Node._make(row))
            at = row[1]
        return way

    def beside(self, chain: list[Node]) -> list[Node]:
        """What a walk cannot see of its replies, in one grouped query: the other lines of the chain's message ids, the
        results of all of them, and the side lines below. Lines of the chain are left out. Cost: one look into an index for
        each line of the chain, and the rows found; the cross joins keep SQLite from starting at the other end.
        """
        alive, parent = self.view.alive(), self.view.parent()
        values = {
            "keys": self._list([node.key for node in chain]),
            "ids": self._list(list({node.message_id for node in chain if node.message_id and node.type == "assistant"})),
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
            SELECT {_COLUMNS.format(parent=parent)} FROM beside CROSS JOIN messages AS m
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
        columns = _COLUMNS.format(parent=self.view.parent())
        return f"{head}SELECT {columns} FROM messages AS m WHERE {self.view.alive()} AND {condition}"

    def _nodes(self, condition: str, **values: Any) -> list[Node]:
        return list(map(Node._make, self._rows(self._select(condition), **values)))

    def _rows(self, statement: str, **values: Any) -> list[Any]:
        """The rows as the driver gives them: SQLAlchemy's would cost as much as the query."""
        result = self._connection.execute(text(statement), {"file": self.file, **values})
        return list(result.cursor.fetchall()) if result.cursor is not None else []
