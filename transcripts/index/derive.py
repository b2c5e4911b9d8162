"""Rows into the database: uuids become nodes, parents are resolved, the latest line stands.

Invariants:
- Adding the lines of a file in one batch or in many gives the same content: a node is made once for each uuid of the file,
  also for one that was only named as a parent, so late parents and repeated uuids need no repair.
- `parent` never names a progress line: it leads past them, also past those that come after their children (FORMAT.md 3.2).
- The caller holds the write transaction, and adds the lines of one file in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, func, select, update

from transcripts.errors import Problem
from transcripts.index import schema
from transcripts.index.bulk import insert_rows, upsert_rows
from transcripts.index.rows import Message, Rows

_SLICE = 500  # values bound to one statement


def add(connection: Connection, file: int, rows: Rows) -> list[Problem]:
    """Write what a batch of lines holds; all problems that it has (their path is empty where they were only met here).

    Cost: linear in the batch, whatever the size of the file or the database.
    """
    insert_rows(connection, schema.entries, [(row[0], file, *row[1:]) for row in rows.entries])
    nodes = _Nodes(connection, file, rows)
    problems = [*rows.problems, *_add_messages(connection, file, rows.messages, nodes)]
    nodes.repoint_children()
    _add_session_lines(connection, file, rows, nodes)
    _add_calls(connection, file, rows, nodes)
    upsert_rows(
        connection,
        schema.usage,
        [(file, *key, *astuple(row)) for key, row in rows.usage.items()],
        keep=("response", "timestamp"),  # those of the response's first line
        conflict={"is_partial": "usage.is_partial AND excluded.is_partial"},
    )
    insert_rows(
        connection,
        schema.problems,
        [(file, fault.offset, fault.length, fault.reason, fault.excerpt) for fault in problems],
        columns=("file", "offset", "length", "reason", "excerpt"),
    )
    return problems


def remove(connection: Connection, file: int) -> None:
    """Delete the derived rows of a file. The search index is not touched: fulltext.remove comes before."""
    for table in schema.DERIVED:
        connection.execute(delete(table).where(table.c.file == file))


def next_key(connection: Connection, table: Table, column: str = "id", at_least: int = 0) -> int:
    """The first unused key of a table whose keys are given out here."""
    return max(connection.scalar(select(func.max(table.c[column]))) or 0, at_least) + 1


# -- nodes -----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    key: int
    progress: int | None = None  # the entry of the progress line
    bridge: int | None = None  # where it leads


class _Nodes:
    """The nodes of a batch: found or made, with the progress lines among them bridged."""

    def __init__(self, connection: Connection, file: int, rows: Rows) -> None:
        self._connection = connection
        self._file = file
        self._by_uuid: dict[str, _Node] = {}
        named = list(dict.fromkeys(_named(rows)))
        for some in _slices(named):
            found = connection.execute(
                select(*schema.nodes.c["uuid", "id", "progress", "bridge"]).where(
                    schema.nodes.c.uuid.in_(some), schema.nodes.c.file == file
                )
            )
            self._by_uuid.update((uuid, _Node(key, progress, bridge)) for uuid, key, progress, bridge in found)
        self.known = {node.key for node in self._by_uuid.values()}
        key = next_key(connection, schema.nodes)
        new = [uuid for uuid in named if uuid not in self._by_uuid]
        self._by_uuid.update((uuid, _Node(key + at)) for at, uuid in enumerate(new))
        self._by_key = {node.key: node for node in self._by_uuid.values()}
        self._late = self._bridge(rows)
        made = ((uuid, self._by_uuid[uuid]) for uuid in new)
        insert_rows(connection, schema.nodes, [(node.key, file, uuid, node.progress, node.bridge) for uuid, node in made])

    def __getitem__(self, uuid: str) -> int:
        return self._by_uuid[uuid].key

    def parent(self, uuid: str | None) -> int | None:
        """The node that a line with this parentUuid hangs on, past progress lines."""
        return None if uuid is None else self._past_progress(self._by_uuid[uuid].key)

    def repoint_children(self) -> None:
        """Lead past those progress lines that came after a line that names them."""
        for node in self._late:
            self._connection.execute(
                update(schema.messages).where(schema.messages.c.parent == node.key).values(parent=self._past_progress(node.key))
            )

    def _bridge(self, rows: Rows) -> list[_Node]:
        changed: dict[int, _Node] = {}
        for uuid, parent, entry in rows.progress:
            node = self._by_uuid[uuid]
            node.progress, node.bridge = entry, None if parent is None else self._by_uuid[parent].key
            changed[node.key] = node
        for node in changed.values():  # each way is shortened once, so that a chain of thousands costs its length
            if node.bridge is not None:
                node.bridge = self._past_progress(node.bridge)
        late = [node for key, node in changed.items() if key in self.known]
        if late:
            self._connection.execute(
                update(schema.nodes)
                .where(schema.nodes.c.id == bindparam("key"))
                .values(progress=bindparam("entry"), bridge=bindparam("to")),
                [{"key": node.key, "entry": node.progress, "to": node.bridge} for node in late],
            )
        return late

    def _past_progress(self, key: int) -> int | None:
        seen: set[int] = set()
        at: int | None = key
        while at is not None and at not in seen:
            seen.add(at)
            node = self._by_key.get(at) or self._load(at)
            if node.progress is None:
                return at
            at = node.bridge
        return at  # None: hangs on nothing; else a circle of progress lines, which has no message

    def _load(self, key: int) -> _Node:
        row = self._connection.execute(select(*schema.nodes.c["id", "progress", "bridge"]).where(schema.nodes.c.id == key)).one()
        node = self._by_key[key] = _Node(*row)
        return node


def _named(rows: Rows) -> Iterator[str]:
    for message in rows.messages:
        yield message.uuid
        if message.parent_uuid is not None:
            yield message.parent_uuid
        if message.source_uuid is not None:
            yield message.source_uuid
    for uuid, parent, _entry in rows.progress:
        yield uuid
        if parent is not None:
            yield parent


def _slices(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[at : at + _SLICE] for at in range(0, len(values), _SLICE))


# -- tables ----------------------------------------------------------------------------------------------------------------


def _add_messages(connection: Connection, file: int, messages: list[Message], nodes: _Nodes) -> list[Problem]:
    """Write chain lines, the later of one uuid in place of the earlier; a line the client does not map replaces none."""
    standing = _offsets(connection, [nodes[message.uuid] for message in messages if nodes[message.uuid] in nodes.known])
    added: list[tuple[Any, ...]] = []
    problems: list[Problem] = []
    for message in messages:
        node, parent = nodes[message.uuid], nodes.parent(message.parent_uuid)
        source = nodes[message.source_uuid] if message.source_uuid not in (None, message.parent_uuid) else None
        if message.parent_uuid == message.uuid:
            problems.append(Problem("", "a message that is its own parent", message.offset, 0))
        if node in standing:
            problems.append(Problem("", f"a uuid again that stood at {standing[node]}", message.offset, 0, message.uuid))
            if not message.is_mapped:
                continue
        standing.setdefault(node, message.offset)
        added.append((
            node, file, message.entry, message.offset, standing[node], parent, source, message.uuid, message.parent_uuid,
            message.type, message.subtype, message.timestamp, message.message_id, message.request_id, message.model,
            message.agent_id, message.is_meta, message.is_sidechain, message.is_prompt, message.is_mapped, message.has_text,
            message.has_call, message.has_result, message.thinking_only, message.blank, message.empty_content,
        ))  # fmt: skip
    upsert_rows(connection, schema.messages, added, keep=("first_offset",))
    return problems


def _offsets(connection: Connection, keys: list[int]) -> dict[int, int]:
    """Where the messages among these nodes stood first."""
    table = schema.messages
    found: dict[int, int] = {}
    for some in _slices(keys):
        rows = connection.execute(select(table.c.node, table.c.first_offset).where(table.c.node.in_(some)))
        found.update((node, offset) for node, offset in rows)
    return found


def _add_session_lines(connection: Connection, file: int, rows: Rows, nodes: _Nodes) -> None:
    insert_rows(connection, schema.summaries, [(row[0], file, *row[1:]) for row in rows.summaries])
    upsert_rows(connection, schema.titles, [(file, kind, *row) for kind, row in rows.titles.items()])
    upsert_rows(connection, schema.tags, [(file, *rows.tag)] if rows.tag else [])
    upsert_rows(connection, schema.snapshots, [(file, *key, entry) for key, entry in rows.snapshots.items()])
    upsert_rows(connection, schema.events, [(file, *key, entry) for key, entry in rows.events.items()])
    boundaries = [(entry, file, offset, nodes[uuid], *rest) for entry, offset, uuid, *rest in rows.boundaries]
    insert_rows(connection, schema.boundaries, boundaries)
    if rows.pointer or rows.last_prompt:
        entry, offset, leaf, explicit = rows.pointer or (None, None, None, False)
        kept = () if rows.pointer else ("entry", "offset", "leaf_uuid", "explicit")
        upsert_rows(
            connection,
            schema.pointers,
            [(file, entry, offset, leaf, explicit, rows.last_prompt)],
            keep=kept,
            conflict={"last_prompt": "coalesce(excluded.last_prompt, pointers.last_prompt)"},
        )


def _add_calls(connection: Connection, file: int, rows: Rows, nodes: _Nodes) -> None:
    """A call and its result meet in one row, whichever comes first; the first result counts (FORMAT.md 3.9)."""
    result = ("result_entry", "result_node", "answered_at", "is_error")
    call = ("name", "target", "call_entry", "call_node", "called_at")
    upsert_rows(
        connection,
        schema.tool_calls,
        [
            (file, key, row.name, row.target, row.entry, nodes[row.uuid], row.timestamp, None, None, None, None)
            for key, row in rows.calls.items()
        ],
        keep=result,
    )
    upsert_rows(
        connection,
        schema.tool_calls,
        [
            (file, key, None, None, None, None, None, row.entry, nodes[row.uuid], row.timestamp, row.is_error)
            for key, row in rows.results.items()
        ],
        keep=call,
        conflict={
            name: f"CASE WHEN tool_calls.result_entry IS NULL THEN excluded.{name} ELSE tool_calls.{name} END" for name in result
        },
    )
