"""What belongs to a session beside its messages: the latest of each kind of line about it.

Invariants:
- The last line of a kind wins, wherever it stands, also before a compaction; of links and snapshots the last for each
  address or message.
- The records are given as they were written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from transcripts.files.entry import load
from transcripts.index.schema import entries, events, pointers, snapshots, tags, titles
from transcripts.sessions.bodies import Place, records

_LINKS = ("pr-link", "frame-link")


@dataclass(frozen=True)
class SessionState:
    """The state that a client needs to go on with a session.

    `title`, `agent_name`, `tag`, `mode`, `permission_mode`, `agent` and `last_prompt` are texts or None (an empty one was
    cleared). `worktree`, `cost` and the values of `others` (by type) are records as written; so are the items of `links`,
    `file_history` (snapshots and deltas of the chain's messages), `attribution` and `content_replacements`, in file order.
    """

    title: str | None = None
    agent_name: str | None = None
    tag: str | None = None
    mode: str | None = None
    permission_mode: str | None = None
    agent: str | None = None
    last_prompt: str | None = None
    worktree: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None
    links: list[dict[str, Any]] = field(default_factory=list)
    file_history: list[dict[str, Any]] = field(default_factory=list)
    attribution: list[dict[str, Any]] = field(default_factory=list)
    content_replacements: list[dict[str, Any]] = field(default_factory=list)
    others: dict[str, dict[str, Any]] = field(default_factory=dict)


def state_of(connection: Connection, file: int, uuids: set[str]) -> SessionState:
    """The state of a session whose chain has these uuids: file history of other messages is left out."""
    given = {row.kind: row.title for row in connection.execute(select(titles).where(titles.c.file == file))}
    latest = _records(connection, file, select(events.c.type, events.c.entry).where(events.c.file == file))
    kept = _records(
        connection,
        file,
        select(snapshots.c.type, snapshots.c.entry).where(
            snapshots.c.file == file,
            snapshots.c.message_id.in_(uuids) | snapshots.c.type.not_in(("file-history-snapshot", "file-history-delta")),
        ),
    )
    single = {kind: record for kind, record in latest if kind not in _LINKS}

    def told(kind: str, key: str) -> str | None:
        value = single.pop(kind, {}).get(key)
        return value if isinstance(value, str) and value else None

    return SessionState(
        title=given.get("custom-title") or given.get("ai-title") or None,
        agent_name=given.get("agent-name") or None,
        tag=connection.scalar(select(tags.c.tag).where(tags.c.file == file)) or None,
        mode=told("mode", "mode"),
        permission_mode=told("permission-mode", "permissionMode"),
        agent=told("agent-setting", "agentSetting"),
        last_prompt=connection.scalar(select(pointers.c.last_prompt).where(pointers.c.file == file)),
        worktree=single.pop("worktree-state", None),
        cost=single.pop("cost-state", None),
        links=[record for kind, record in latest if kind in _LINKS],
        file_history=[record for kind, record in kept if kind.startswith("file-history")],
        attribution=[record for kind, record in kept if kind == "attribution-snapshot"],
        content_replacements=[record for kind, record in kept if kind == "content-replacement"],
        others=single,
    )


def _records(connection: Connection, file: int, named: Any) -> list[tuple[str, dict[str, Any]]]:
    """The records of the named entries with their type, in file order."""
    wanted = named.subquery()
    rows = connection.execute(
        select(wanted.c.type, entries.c.offset, entries.c.length, entries.c.crc)
        .join(entries, entries.c.id == wanted.c.entry)
        .order_by(entries.c.offset)
    ).all()
    bodies = records(connection, file, [Place(*row[1:]) for row in rows])
    return [(row.type, load(data)) for row, data in zip(rows, bodies, strict=True)]
