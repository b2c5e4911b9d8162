"""Record messages into a session's transcript, by the rules of the published client's writer.

Invariants:
- A message whose uuid stands in the transcript is not written again. While nothing new was met it moves the parent on, so
  that a list given again from its start goes on where it parts from what is there.
- A new message hangs on the last one before it that takes part in the chain (progress does not); a tool result on the line
  that made the call (`sourceToolAssistantUUID`); a compact boundary on nothing, and names as its logical parent what it
  would have hung on.
- A line of a sub-agent (isSidechain, agentId) goes to the agent's own file and is always written: there it may repeat lines
  of the session.
- A transcript appears with its first user or assistant message; what comes before waits for it.
- What is new is decided under the transcript's lock, after everything in it was imported: two processes that record the same
  messages write each once.
"""

from __future__ import annotations

import os
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, or_, select

from transcripts.errors import DatabaseBusy, InvalidRequest
from transcripts.files import writer
from transcripts.index import sync
from transcripts.index.database import Database
from transcripts.index.rows import CHAIN_TYPES, short
from transcripts.index.schema import files, messages, nodes

Message = Mapping[str, Any]
"""An entry as a transcript has it, of any type; what the writer stamps may be missing."""

Parents = dict[str | None, str | None]
"""The uuid that the next message hangs on: of the session by None, of its sub-agents by their ids."""

_BEGINS = frozenset({"user", "assistant"})
_PROGRESS = "progress"
_SLICE = 500  # values bound to one statement


@dataclass(frozen=True)
class Stamps:
    """What is written on every message; None leaves what the message says itself."""

    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    team_name: str | None = None
    agent_name: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a session is recorded. `otherwise` is stamped where neither the caller nor a message says anything.

    `is_new`: its transcript may have to be made; else one that is no longer there is not begun anew.
    """

    path: str
    session_id: str
    is_new: bool
    otherwise: Stamps = field(default_factory=Stamps)

    def file_of(self, agent: str | None) -> str:
        """The transcript of the session, or of one of its sub-agents."""
        if agent is None:
            return self.path
        if not agent or not is_name(agent):
            raise InvalidRequest(f"{agent!r} is no id of a sub-agent: it would name a file elsewhere")
        return os.path.join(self.path.removesuffix(".jsonl"), "subagents", f"agent-{agent}.jsonl")


def is_name(text: str) -> bool:
    """Whether a text can be part of a file's name, and leads nowhere else."""
    return os.sep not in text and "\0" not in text and text.encode("utf-8", "ignore").decode() == text


class Recorded(NamedTuple):
    """The parents of what comes next, and the messages that wait for the first one of a user or assistant."""

    parents: Parents
    waiting: list[Message]


def record(
    database: Database,
    source: str,
    place: Place,
    given: Iterable[Message],
    parents: Parents,
    stamps: Stamps,
    fsync: bool = False,
) -> Recorded:
    """Write what is new of the given messages, and import it.

    Raises InvalidRequest, before anything is written, for what is no entry; NotFound, NotWritten, TranscriptBusy and
    DatabaseBusy. Cost: linear in what is given.
    """
    own: list[Message] = []
    agents: dict[str, list[Message]] = {}
    for message in given:
        agent = _agent_of(_checked(message))
        (own if agent is None else agents.setdefault(agent, [])).append(message)
    after = Recorded(dict(parents), [])
    written: dict[str, list[bytes]] = {}
    for agent, some in agents.items():
        lines, after.parents[agent] = chained(some, frozenset(), parents.get(agent), place, stamps, agent)
        written[place.file_of(agent)] = [*map(writer.line_of, lines)]
    if own and place.is_new and not _has_begun(place.path) and all(message["type"] not in _BEGINS for message in own):
        after.waiting.extend(own)
    elif own:
        with writer.locked(place.path, make=place.is_new, fsync=fsync) as transcript:
            if transcript.size:
                sync.sync(database, source, [place.path], remember=False, texts=False)
            known = _known(database, source, place.path, own)
            lines, after.parents[None] = chained(own, known, parents.get(None), place, stamps, None)
            transcript.append(lines)
    for path, agent_lines in written.items():
        writer.append(path, agent_lines, fsync=fsync)
    import_written(database, source, [*([place.path] if own and not after.waiting else []), *written])
    return after


def record_once(
    database: Database, source: str, place: Place, given: Iterable[Message], parent: str | None, stamps: Stamps, fsync: bool
) -> str | None:
    """Record messages below `parent`; the uuid that the next one hangs on.

    Both are the session's, and those of a sub-agent where only lines of one are given.
    """
    some = list(given)
    agents = {_agent_of(message) for message in map(_checked, some)}
    whose = agents.pop() if len(agents) == 1 else None
    return record(database, source, place, some, {whose: parent}, stamps, fsync).parents.get(whose)


def import_written(database: Database, source: str, paths: Sequence[str]) -> None:
    """Import what has been appended. Where the database stays busy the next sync does: the lines are safe."""
    with suppress(DatabaseBusy):
        sync.sync(database, source, paths, remember=False, texts=False)


def now() -> str:
    """This moment as transcripts write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_boundary(message: Message) -> bool:
    """Whether a message says that what stands before it was compacted."""
    return message.get("type") == "system" and message.get("subtype") == "compact_boundary"


# -- the rules -----------------------------------------------------------------------------------------------------------------


def _checked(message: Message) -> Message:
    if not isinstance(message, Mapping) or not isinstance(message.get("type"), str):
        raise InvalidRequest("a message to record is an object with a type, such as user or assistant")
    if not isinstance(message.get("uuid", ""), str):
        raise InvalidRequest(f"the uuid of a message is a text, not {message['uuid']!r}; leave it out to have one made")
    return message


def _agent_of(message: Message) -> str | None:
    """The sub-agent whose own file a message goes to."""
    agent = message.get("agentId")
    return agent if message.get("isSidechain") is True and isinstance(agent, str) else None


def chained(
    given: Sequence[Message], known: Set[str], parent: str | None, place: Place, stamps: Stamps, agent: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """The lines to write into one file, and the parent of what comes next."""
    lines: list[dict[str, Any]] = []
    written: set[str] = set()
    for message in given:
        kind = message["type"]
        if kind not in CHAIN_TYPES and kind != _PROGRESS:
            lines.append({**message, "sessionId": place.session_id})
            continue
        uuid = message.get("uuid") or str(uuids.uuid4())
        if uuid in known:
            if not written and kind != _PROGRESS:
                parent = uuid
            continue
        if uuid not in written or agent is not None:
            lines.append(_stamped({**message, "uuid": uuid}, parent, place, stamps))
            written.add(uuid)
        if kind != _PROGRESS:
            parent = uuid
    return lines, parent


def _stamped(message: dict[str, Any], parent: str | None, place: Place, stamps: Stamps) -> dict[str, Any]:
    """A message as a line: first what hangs it up, last what the session stamps."""
    above: dict[str, Any] = {"parentUuid": parent}
    asker = message.get("sourceToolAssistantUUID")
    if is_boundary(message):
        above = {"parentUuid": None, "logicalParentUuid": message.get("logicalParentUuid") or parent}
    elif message["type"] == "user" and isinstance(asker, str) and asker:
        above = {"parentUuid": asker}
    above["isSidechain"] = message.get("isSidechain") is True
    team = {"teamName": stamps.team_name, "agentName": stamps.agent_name}
    above |= {name: message.get(name, value) for name, value in team.items() if value is not None}
    line = above | {name: value for name, value in message.items() if name not in above}
    line.setdefault("timestamp", now())
    line.setdefault("userType", "external")
    for name, value, otherwise in (
        ("cwd", stamps.cwd, place.otherwise.cwd),
        ("sessionId", place.session_id, None),
        ("version", stamps.version, place.otherwise.version),
        ("gitBranch", stamps.git_branch, place.otherwise.git_branch),
    ):
        if value is not None:
            line[name] = value
        elif otherwise is not None:
            line.setdefault(name, otherwise)
    return line


def _has_begun(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def _known(database: Database, source: str, path: str, given: Sequence[Message]) -> set[str]:
    """The uuids among those of the messages that stand in a transcript where the client sees them."""
    wanted = {uuid: short(uuid) for message in given if isinstance(uuid := message.get("uuid"), str)}
    with database.read() as connection:
        standing = set(_standing(connection, source, path, sorted(filter(None, wanted.values()))))
    return {uuid for uuid, stored in wanted.items() if stored in standing}


def _standing(connection: Connection, source: str, path: str, stored: Sequence[str]) -> Iterator[str]:
    newest = select(files.c.id).where(files.c.source == source, files.c.path == path, files.c.state != "replaced")
    file = connection.scalar(newest.order_by(files.c.version.desc()).limit(1))
    seen = or_(messages.c.is_mapped, nodes.c.progress.is_not(None))
    for at in range(0, len(stored), _SLICE):
        yield from connection.scalars(
            select(nodes.c.uuid)
            .outerjoin(messages, messages.c.node == nodes.c.id)
            .where(nodes.c.file == file, nodes.c.uuid.in_(stored[at : at + _SLICE]), seen)
        )
