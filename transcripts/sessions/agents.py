"""The sub-agents of a session: their own files, and sidechains inside old main transcripts.

Invariants:
- A sub-agent of its own file belongs to the session in whose folder it lies, or (old top-level files) that its lines name.
- The call that started it is the one its meta file names, else the one whose result names the agent; the caller is the
  transcript that holds this call, so nested agents hang on agents.
- A sidechain inside a main transcript is one agent for each root: a sidechain line whose parent is none, or no sidechain. Its
  id is its lines' agentId, else the root's uuid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from transcripts.errors import NotFound
from transcripts.files.entry import load
from transcripts.index.archive import Archive
from transcripts.index.rows import prompt_of
from transcripts.index.schema import files, messages, tool_calls
from transcripts.sessions.bodies import Place, records
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.tree import View


@dataclass(frozen=True, slots=True)
class SubAgent:
    """A sub-agent of a session.

    `path` is its transcript: a file of its own, or the main transcript for a sidechain inside it (`root` is then the uuid of
    its first line). `tool_use_id` is the call that started it and `caller` the agent that made this call (None: the main
    conversation, or not known). Times are milliseconds since 1970 UTC. `meta` is the meta file as written.
    """

    id: str
    path: str
    root: str | None
    agent_type: str | None
    description: str | None
    tool_use_id: str | None
    caller: str | None
    message_count: int
    created_at: int | None
    last_activity_at: int | None
    prompt: str | None
    meta: dict[str, Any]


def listed(connection: Connection, session: Transcript) -> list[SubAgent]:
    """The sub-agents of a session, oldest first."""
    found = [*_own_files(connection, session), *_sidechains(connection, session)]
    return sorted(found, key=lambda agent: (agent.created_at or 0, agent.id))


def find(connection: Connection, session: Transcript, agent: str) -> tuple[SubAgent, Transcript, View]:
    """One sub-agent by its id or a unique prefix, with the transcript and the level to resume it from. Raises NotFound."""
    agents = listed(connection, session)
    same = [each for each in agents if each.id == agent] or [each for each in agents if agent and each.id.startswith(agent)]
    if len(same) != 1:
        known = ", ".join(each.id for each in agents) or "none"
        raise NotFound(f"{'several sub-agents are' if same else 'no sub-agent is'} called {agent!r}; the session has: {known}")
    if same[0].root is None:
        row = connection.execute(select(files).where(files.c.path == same[0].path, files.c.state != "replaced")).one()
        own = Transcript(
            row.id,
            row.kind,
            row.path,
            row.version,
            row.source,
            row.project_key,
            row.session_id,
            row.agent_id,
            row.state,
            row.kept_size,
        )
        return same[0], own, View(is_agent=True)
    node = select(messages.c.node).where(messages.c.file == session.file, messages.c.uuid == same[0].root)
    return same[0], session, View(is_agent=True, sidechain=connection.scalar(node))


def _own_files(connection: Connection, session: Transcript) -> Iterator[SubAgent]:
    of_session = and_(
        files.c.source == session.source, files.c.project_key == session.project_key, files.c.session_id == session.session_id
    )
    metas = {
        row.name.removesuffix(".meta.json"): load(b"".join(Archive(connection, row.id)))
        for row in connection.execute(
            select(files).where(
                of_session, files.c.kind == "side", files.c.name.endswith(".meta.json"), files.c.state != "replaced"
            )
        )
    }
    rows = connection.execute(
        select(
            *files.c["id", "path", "agent_id", "name"],
            func.count(messages.c.node).label("message_count"),
            func.min(messages.c.timestamp).label("began"),
            func.max(messages.c.timestamp).label("ended"),
        )
        .outerjoin(messages, and_(messages.c.file == files.c.id, messages.c.type.in_(("user", "assistant"))))
        .where(of_session, files.c.kind == "agent", files.c.state != "replaced")
        .group_by(*files.c["id", "path", "agent_id", "name"])
    ).all()
    for row in rows:
        meta = metas.get(row.name.removesuffix(".jsonl"), {})
        call, caller = _started_by(connection, of_session, _text(meta.get("toolUseId")), row.agent_id)
        first = (
            select(messages.c.node)
            .where(messages.c.file == row.id, messages.c.type == "user")
            .order_by(messages.c.offset)
            .limit(1)
        )
        yield SubAgent(
            row.agent_id, row.path, None, _text(meta.get("agentType")), _text(meta.get("description")), call, caller,
            row.message_count, row.began, row.ended, _prompt(connection, row.id, connection.scalar(first)), meta,
        )  # fmt: skip


def _started_by(connection: Connection, of_session: Any, named: str | None, agent: str) -> tuple[str | None, str | None]:
    """The call that started an agent, and the agent whose transcript holds it."""
    this_call = tool_calls.c.tool_use_id == named if named else tool_calls.c.agent_id == agent
    row = connection.execute(
        select(tool_calls.c.tool_use_id, files.c.agent_id)
        .join(files, files.c.id == tool_calls.c.file)
        .where(of_session, this_call, tool_calls.c.call_entry.is_not(None), files.c.state != "replaced")
        .where(or_(files.c.agent_id.is_(None), files.c.agent_id != agent))
        .order_by(files.c.kind.desc(), files.c.path)
        .limit(1)
    ).one_or_none()
    return (row.tool_use_id, row.agent_id) if row else (named, None)


def _sidechains(connection: Connection, session: Transcript) -> Iterator[SubAgent]:
    if session.kind != "main":
        return
    above = messages.alias()
    roots = connection.execute(
        select(messages)
        .outerjoin(above, and_(above.c.node == messages.c.parent, above.c.is_sidechain))
        .where(messages.c.file == session.file, messages.c.is_sidechain, messages.c.is_mapped, above.c.node.is_(None))
        .order_by(messages.c.offset)
    ).all()
    for root in roots:
        below = select(messages.c.node).where(messages.c.node == root.node).cte("below", recursive=True)
        below = below.union(select(messages.c.node).where(messages.c.parent == below.c.node, messages.c.is_sidechain))
        count, first, last = connection.execute(
            select(func.count(), func.min(messages.c.timestamp), func.max(messages.c.timestamp))
            .join(below, below.c.node == messages.c.node)
            .where(messages.c.type.in_(("user", "assistant")))
        ).one()
        yield SubAgent(
            root.agent_id or root.uuid, session.path, root.uuid, None, None, None, None, count, first, last,
            _prompt(connection, session.file, root.node), {},
        )  # fmt: skip


def _prompt(connection: Connection, file: int, node: int | None) -> str | None:
    """What the agent was asked."""
    row = connection.execute(select(*messages.c["offset", "length", "crc"]).where(messages.c.node == node)).one_or_none()
    if row is None:
        return None
    record = load(next(records(connection, file, [Place(*row)])))
    return prompt_of({**record, "isSidechain": False})


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
