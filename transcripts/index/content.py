"""What the derived rows of a file say, with the opaque keys replaced by what they stand for.

Two imports of the same bytes have the same content, whatever keys they gave out and in whatever slices they came: this is
what verify compares, and what the tests of the importer hold.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, select

from transcripts.index.schema import DERIVED, entries, files, nodes, projects, responses, tool_calls

Content = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
"""table -> place of a row -> its columns. Places are offsets, uuids, and the like."""

_ENTRY_COLUMNS = frozenset({"entry", "call_entry", "result_entry", "progress"})
_NODE_COLUMNS = frozenset({"node", "parent", "source", "bridge", "call_node", "result_node"})
_GONE = "?"


def content(connection: Connection, file: int) -> Content:
    """The derived rows of a file. Cost: all of them are read."""
    offsets: dict[int, Any] = dict(connection.execute(select(entries.c.id, entries.c.offset).where(entries.c.file == file)).all())
    uuids: dict[int, str] = dict(connection.execute(select(nodes.c.id, nodes.c.uuid).where(nodes.c.file == file)).all())
    found: Content = {}
    for table in DERIVED:
        rows = found[table.name] = {}
        for row in connection.execute(select(table).where(table.c.file == file)).mappings():
            values = {
                name: _meaning(connection, table, name, value, offsets, uuids)
                for name, value in row.items()
                if name not in ("file", "id", "is_copy")
            }
            place = _place(table, values)
            while place in rows:  # a row too many must not hide behind the one it repeats
                place = (*place, "again")
            rows[place] = values
    return found


def totals(connection: Connection) -> Content:
    """What is told of all files together: the responses, the calls that have copies, and the projects."""
    rows = connection.execute(
        select(responses, files.c.path, files.c.version).join(files, files.c.id == responses.c.owner)
    ).mappings()
    several = (
        select(*tool_calls.c["tool_use_id", "called_at", "is_copy"], *files.c["path", "version", "source"])
        .join(files, files.c.id == tool_calls.c.file)
        .where(tool_calls.c.tool_use_id.in_(select(tool_calls.c.tool_use_id).where(tool_calls.c.is_copy)))
        .order_by(tool_calls.c.tool_use_id, files.c.path, files.c.version, files.c.source)
    )
    return {
        "responses": {
            (row["response"],): {name: value for name, value in row.items() if name not in ("owner", "response")} for row in rows
        },
        "calls": {
            (row["tool_use_id"], row["called_at"], at): dict(row) for at, row in enumerate(connection.execute(several).mappings())
        },
        "projects": {tuple(row): {} for row in connection.execute(select(*projects.c["path", "key", "source"]))},
    }


def differences(stored: Content, derived: Content) -> list[tuple[str, tuple[Any, ...], str]]:
    """Where two contents disagree: table, place, and what is wrong with the stored one."""
    found = []
    for table in derived:
        here, there = stored[table], derived[table]
        found += [(table, place, "a row that the bytes do not have") for place in here if place not in there]
        found += [(table, place, "a missing row") for place in there if place not in here]
        for place in here.keys() & there.keys():
            found += [
                (table, place, f"{name} is {here[place][name]!r}, by the bytes {there[place][name]!r}")
                for name in there[place]
                if here[place][name] != there[place][name]
            ]
    return sorted(found, key=str)


def _meaning(connection: Connection, table: Table, name: str, value: Any, offsets: dict[int, Any], uuids: dict[int, str]) -> Any:
    if value is None:
        return None
    if name in _ENTRY_COLUMNS:
        return offsets.get(value, _GONE)
    if name in _NODE_COLUMNS:
        return uuids.get(value, _GONE)
    if name == "project":
        row = connection.execute(select(*projects.c["source", "key", "path"]).where(projects.c.id == value)).one_or_none()
        return tuple(row) if row else _GONE
    return value


def _place(table: Table, values: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a row from the others of its table: its key, as far as that means something, else its offset."""
    if table.name == "problems":
        return (values["offset"], values["reason"], values["excerpt"])
    if "offset" in values:
        return (values["offset"], values.get("uuid", ""))
    if table is nodes:
        return (values["uuid"],)
    return tuple(str(values[column.name]) for column in table.primary_key if column.name in values)
