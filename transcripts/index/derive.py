"""Rows into the database: uuids become nodes, parents are resolved, the latest line stands.

Invariants:
- Adding the lines of a file in one batch or in many gives the same content: a node is made once for each uuid of the file,
  also for one that was only named as a parent, so late parents and repeated uuids need no repair.
- `parent` never names a progress line: it leads past them, also past those that come after their children (FORMAT.md 3.2).
- The caller holds the write transaction, and adds the lines of one file in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, bindparam, delete, func, select, update

from transcripts.errors import Problem
from transcripts.index import schema
from transcripts.index.bulk import fetch, insert_rows, scalar, upsert_rows
from transcripts.index.rows import COMMAND, MARK, Rows, Standing, Usage

_usage_values = attrgetter(*(field.name for field in fields(Usage) if field.name not in ("response", "entry")))


def add(connection: Connection, file: int, rows: Rows, key: int, line: int) -> list[Problem]:
    """Write what a batch of lines holds; all problems that it has (their path is empty where they were only met here).

    `key` is that of the first entry, `line` the number of complete lines before. Cost: linear in the batch, whatever the size
    of the file or the database; only of a message id that a relay gives to many replies are all looked up.
    """
    if rows.unnamed:
        _tell_apart(connection, file, rows, key)
    insert_rows(
        connection,
        schema.entries,
        [(key + number, file, line + at, offset, *rest) for number, at, offset, *rest in rows.entries],
    )
    nodes = _Nodes(connection, file, rows, key)
    problems = [*rows.problems, *_add_messages(connection, file, rows, key, nodes)]
    nodes.repoint_children()
    _add_session_lines(connection, file, rows, key, nodes)
    _add_calls(connection, file, rows, key, nodes)
    upsert_rows(
        connection,
        schema.usage,
        [(file, *of, row.response, key + row.entry, *_usage_values(row)) for of, row in rows.usage.items()],
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
    return max(scalar(connection, _highest(table, column)) or 0, at_least) + 1


@cache
def _highest(table: Table, column: str) -> Select[Any]:
    return select(func.max(table.c[column]))


# -- replies of one id ------------------------------------------------------------------------------------------------------


_TOLD = (
    select(
        *schema.usage.c["message_id", "request_id", "is_partial", "entry"],
        schema.usage.c.input_tokens
        + schema.usage.c.cache_read_tokens
        + schema.usage.c.cache_write_5m_tokens
        + schema.usage.c.cache_write_1h_tokens,
    )
    .where(schema.usage.c.file == bindparam("file"), schema.usage.c.message_id.in_(bindparam("some", expanding=True)))
    .order_by(schema.usage.c.entry)
)
_LAST_USER = (
    select(schema.entries.c.id)
    .where(schema.entries.c.file == bindparam("file"), schema.entries.c.type == "user")
    .order_by(schema.entries.c.offset.desc())
    .limit(1)
)
_LAST_PROMPT = (
    select(schema.prompts.c.entry)
    .where(schema.prompts.c.file == bindparam("file"))
    .order_by(schema.prompts.c.offset.desc())
    .limit(1)
)


def _tell_apart(connection: Connection, file: int, rows: Rows, key: int) -> None:
    """Find the replies of lines without the id of a request, before anything of the batch is written."""
    ids = list(dict.fromkeys(line.message_id for line in rows.unnamed))
    told = fetch(connection, _TOLD, file=file, some=ids)
    standing = {
        of: Standing(request, asked, bool(is_partial), entry - key)
        for of, request, is_partial, entry, asked in told
        if not request or request.startswith(MARK)
    }
    user = scalar(connection, _LAST_USER, file=file) if standing else None
    prompt = scalar(connection, _LAST_PROMPT, file=file) if standing else None
    rows.tell_apart(standing, (user or 0) - key, (prompt or 0) - key)


# -- nodes ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    key: int
    progress: int | None = None  # the entry of the progress line
    bridge: int | None = None  # its parent
    first_offset: int | None = None  # of the message, if there is one
    is_mapped: bool = False


class _Nodes:
    """The nodes of a batch: found or made, with what is known of their messages and progress lines."""

    def __init__(self, connection: Connection, file: int, rows: Rows, first: int) -> None:
        self._connection = connection
        self._file = file
        self._by_uuid: dict[str, _Node] = {}
        named = list(dict.fromkeys(_named(rows)))
        found = fetch(connection, _NODES, file=file, some=named) if named else []
        self._by_uuid.update((uuid, _Node(*values)) for uuid, *values in found)
        known = {node.key for node in self._by_uuid.values()}
        key = next_key(connection, schema.nodes)
        new = [uuid for uuid in named if uuid not in self._by_uuid]
        self._by_uuid.update((uuid, _Node(key + at)) for at, uuid in enumerate(new))
        self._by_key = {node.key: node for node in self._by_uuid.values()}
        self._moved = False  # whether a progress line leads elsewhere than it did, or no longer leads on
        self._late = self._bridge(rows, first, known)
        self._cross(rows)
        rows.reaches_back = self._moved or bool(self._late)
        made = ((uuid, self._by_uuid[uuid]) for uuid in new)
        insert_rows(connection, schema.nodes, [(node.key, file, uuid, node.progress, node.bridge) for uuid, node in made])

    def __getitem__(self, uuid: str) -> int:
        return self._by_uuid[uuid].key

    def message(self, uuid: str) -> _Node:
        """The node of a message, with the place where it stood first."""
        return self._by_uuid[uuid]

    def parent(self, uuid: str | None) -> int | None:
        """The node that a line with this parentUuid hangs on, past progress lines."""
        return None if uuid is None else self._past_progress(self._by_uuid[uuid].key)

    def repoint_children(self) -> None:
        """Lead past those progress lines that came after a line that names them."""
        if self._moved or any(self._past_progress(node.key) == node.key for node in self._late):  # the latter: a circle closed
            _repoint_all(self._connection, self._file, self._past_progress)
            return
        for node in self._late:
            self._connection.execute(
                update(schema.messages).where(schema.messages.c.parent == node.key).values(parent=self._past_progress(node.key))
            )

    def _bridge(self, rows: Rows, first: int, known: set[int]) -> list[_Node]:
        """Note where progress lines lead; those of them that others may have named before."""
        changed: dict[int, _Node] = {}
        for uuid, parent, entry in rows.progress:
            node, bridge = self._by_uuid[uuid], None if parent is None else self._by_uuid[parent].key
            self._moved = self._moved or (node.progress is not None and node.bridge != bridge)
            node.progress, node.bridge = first + entry, bridge
            changed[node.key] = node
        late = [node for key, node in changed.items() if key in known]
        if late:
            self._connection.execute(
                update(schema.nodes)
                .where(schema.nodes.c.id == bindparam("key"))
                .values(progress=bindparam("entry"), bridge=bindparam("to")),
                [{"key": node.key, "entry": node.progress, "to": node.bridge} for node in late],
            )
        return late

    def _cross(self, rows: Rows) -> None:
        """A uuid can be a progress line's and a message's: then the message stands, and children come back to it."""
        for message in rows.messages:
            if message.is_mapped:
                self._by_uuid[message.uuid].is_mapped = True
        named = [*(message.uuid for message in rows.messages), *(uuid for uuid, _parent, _entry in rows.progress)]
        nodes = (self._by_uuid[uuid] for uuid in named)
        self._moved = self._moved or any(node.is_mapped and node.progress is not None for node in nodes)

    def _past_progress(self, key: int) -> int | None:
        seen: set[int] = set()
        at: int | None = key
        while at is not None and at not in seen:
            seen.add(at)
            node = self._by_key.get(at) or self._load(at)
            if node.progress is None or node.is_mapped:
                return at
            at = node.bridge
        return at  # None: hangs on nothing; else a circle of progress lines, where no message is

    def _load(self, key: int) -> _Node:
        """A node that the batch does not name, and with it the run of progress lines above."""
        table = schema.nodes
        run = select(table.c.id, table.c.bridge).where(table.c.id == key).cte("run", recursive=True)
        run = run.union(select(table.c.id, table.c.bridge).where(table.c.id == run.c.bridge, table.c.progress.is_not(None)))
        for _uuid, *values in self._connection.execute(_NODE.where(table.c.id.in_(select(run.c.id)))):
            self._by_key.setdefault(values[0], _Node(*values))
        return self._by_key[key]


_NODE = select(
    *schema.nodes.c["uuid", "id", "progress", "bridge"],
    schema.messages.c.first_offset,
    func.coalesce(schema.messages.c.is_mapped, False),
).outerjoin(schema.messages, schema.messages.c.node == schema.nodes.c.id)

_NODES = _NODE.where(schema.nodes.c.uuid.in_(bindparam("some", expanding=True)), schema.nodes.c.file == bindparam("file"))


def _repoint_all(connection: Connection, file: int, past_progress: Callable[[int], int | None]) -> None:
    """Find the parents of all messages of a file anew. Cost: the messages of the file."""
    named = and_(schema.nodes.c.uuid == schema.messages.c.parent_uuid, schema.nodes.c.file == file)
    rows = connection.execute(
        select(schema.messages.c.node, schema.messages.c.parent, schema.nodes.c.id)
        .join(schema.nodes, named)
        .where(schema.messages.c.file == file)
    ).all()
    for node, parent, key in rows:
        if (found := past_progress(key)) != parent:
            connection.execute(update(schema.messages).where(schema.messages.c.node == node).values(parent=found))


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


# -- tables ----------------------------------------------------------------------------------------------------------------


def _add_messages(connection: Connection, file: int, rows: Rows, key: int, nodes: _Nodes) -> list[Problem]:
    """Write chain lines, the later of one uuid in place of the earlier; a line the client does not map replaces none."""
    added: list[tuple[Any, ...]] = []
    problems: list[Problem] = []
    for message in rows.messages:
        node, parent = nodes.message(message.uuid), nodes.parent(message.parent_uuid)
        source = nodes[message.source_uuid] if message.source_uuid not in (None, message.parent_uuid) else None
        if message.parent_uuid == message.uuid:
            problems.append(Problem("", "a message that is its own parent", message.offset, message.length))
        if node.first_offset is not None:
            again = f"a uuid again that stood at {node.first_offset}"
            problems.append(Problem("", again, message.offset, message.length, message.uuid[:80]))
            rows.reaches_back = True
            if not message.is_mapped:
                continue
        else:
            node.first_offset = message.offset
        added.append((
            node.key, file, key + message.entry, message.offset, message.length, message.crc, node.first_offset, parent, source,
            message.uuid, message.parent_uuid, message.type, message.subtype, message.timestamp, message.message_id,
            message.request_id, message.model, message.agent_id, message.is_meta, message.is_sidechain, message.is_prompt,
            message.is_mapped, message.is_glued, message.call_ids, message.result_ids, message.thinking_only, message.blank,
            message.empty_content, *message.tokens,
        ))  # fmt: skip
    upsert_rows(connection, schema.messages, added, keep=("first_offset",))
    return problems


def _add_session_lines(connection: Connection, file: int, rows: Rows, first: int, nodes: _Nodes) -> None:
    insert_rows(connection, schema.summaries, [(first + row[0], file, *row[1:]) for row in rows.summaries])
    given = [(file, kind, first + entry, title) for kind, (entry, title) in rows.titles.items()]
    upsert_rows(connection, schema.titles, [row for row in given if row[1] != COMMAND])
    command = [row for row in given if row[1] == COMMAND]
    upsert_rows(connection, schema.titles, command, keep=("title",), conflict={"entry": "titles.entry"})  # the first one stays
    upsert_rows(connection, schema.tags, [(file, first + rows.tag[0], rows.tag[1])] if rows.tag else [])
    upsert_rows(connection, schema.snapshots, [(file, *of, first + entry) for of, entry in rows.snapshots.items()])
    upsert_rows(connection, schema.events, [(file, *of, first + entry) for of, entry in rows.events.items()])
    insert_rows(connection, schema.snips, [(first + entry, file, nodes[uuid], removed) for entry, uuid, removed in rows.snips])
    boundaries = [(first + entry, file, offset, nodes[uuid], *rest) for entry, offset, uuid, *rest in rows.boundaries]
    insert_rows(connection, schema.boundaries, boundaries)
    insert_rows(connection, schema.prompts, [(first + row[0], file, *row[1:]) for row in rows.prompts])
    insert_rows(connection, schema.errors, [(first + row[0], file, *row[1:]) for row in rows.errors])
    if rows.client_cost:
        upsert_rows(connection, schema.client_costs, [(file, first + rows.client_cost[0], *rows.client_cost[1:])])
    if rows.pointer or rows.last_prompt:
        entry, offset, leaf, explicit = rows.pointer or (None, None, None, False)
        kept = () if rows.pointer else ("entry", "offset", "leaf_uuid", "explicit")
        upsert_rows(
            connection,
            schema.pointers,
            [(file, None if entry is None else first + entry, offset, leaf, explicit, rows.last_prompt)],
            keep=kept,
            conflict={"last_prompt": "coalesce(excluded.last_prompt, pointers.last_prompt)"},
        )


_FIRST_RESULT = "CASE WHEN tool_calls.result_entry IS NULL THEN {} ELSE {} END"


def _add_calls(connection: Connection, file: int, rows: Rows, first: int, nodes: _Nodes) -> None:
    """A call and its result meet in one row, whichever comes first; the first result counts (FORMAT.md 3.9)."""
    result = ("result_entry", "result_node", "answered_at", "is_error", "agent_id")
    call = ("name", "target", "call_entry", "call_node", "called_at", "program", "path")
    nothing = (None,) * 5
    called = [
        (
            file,
            key,
            row.name,
            row.target,
            first + row.entry,
            nodes[row.uuid],
            row.timestamp,
            *nothing,
            row.program,
            row.path,
            False,
            None,
        )
        for key, row in rows.calls.items()
    ]
    duration = {"duration": "tool_calls.answered_at - excluded.called_at"}
    upsert_rows(connection, schema.tool_calls, called, keep=result, conflict=duration)
    answered = [
        (
            file,
            key,
            *nothing,
            first + row.entry,
            nodes[row.uuid],
            row.timestamp,
            row.is_error,
            row.agent_id,
            None,
            None,
            False,
            None,
        )
        for key, row in rows.results.items()
    ]
    earliest = {name: _FIRST_RESULT.format(f"excluded.{name}", f"tool_calls.{name}") for name in result}
    earliest["duration"] = _FIRST_RESULT.format("excluded.answered_at - tool_calls.called_at", "tool_calls.duration")
    upsert_rows(connection, schema.tool_calls, answered, keep=call, conflict=earliest)
