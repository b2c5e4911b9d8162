"""Fork a session: a new transcript beside it that goes on from what was said.

Two ways. The client's takes the chain that would be resumed, and leaves its uuids: the fork is recognised as a copy, and its
responses are counted once. The Agent SDK's takes all lines of the session, gives them new uuids and notes where they are from.

Invariants:
- The fork appears whole or not at all, and the session it is from is not touched. It may be one whose file is gone.
- The Agent SDK's way writes the lines that its own fork_session writes, also of lines that its readers lose. Such a fork may
  resume another chain than its session, as the SDK's does: the last line of the file has a new time, so its branch is the
  newest, results no longer name the line that made the call, and what is told of the session stays behind.
- The client's way copies the chain as it is resumed, after its drops: the fork resumes the same. Two things cannot be copied
  so: thinking whose reply was dropped is dropped in the fork, and a compaction that a later one preserves cuts the fork off.
"""

from __future__ import annotations

import os
import uuid as uuids
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from transcripts.errors import InvalidRequest, NotFound
from transcripts.files import writer
from transcripts.files.entry import SALVAGED, exact, load, parse
from transcripts.files.reader import Line, blocks, lines
from transcripts.index.archive import Archive
from transcripts.index.database import Database
from transcripts.index.schema import entries
from transcripts.index.text import blocks as content_blocks
from transcripts.sessions import catalog, chain
from transcripts.sessions.bodies import Place as At
from transcripts.sessions.bodies import records
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.chain import ChainEntry
from transcripts.sessions.mutations import clean_title
from transcripts.sessions.recording import Place, import_written, now

_GO_ALONG = frozenset(
    {"custom-title", "ai-title", "tag", "agent-name", "agent-color", "agent-setting", "mode", "permission-mode", "atis-latch",
     "tools-used"}
)  # fmt: skip
_PART_WAYS = ("teamName", "agentName", "slug", "sourceToolAssistantUUID")  # what the SDK's fork does not take along
_PROMPT = 200  # characters of a prompt that becomes a title
_CHAIN = frozenset({"user", "assistant", "attachment", "system", "progress"})


def fork(database: Database, source: str, session: Transcript, way: str, up_to: str | None, title: str | None) -> str:
    """Fork a session in one of the WAYS; the id of the new session.

    Raises NotFound for a message that is not there, InvalidRequest where there is nothing to fork.
    """
    if way not in WAYS:
        raise InvalidRequest(f"there is no way {way!r} to fork; there are: {', '.join(WAYS)}")
    if session.kind != "main":
        raise InvalidRequest(f"{session.path} is a sub-agent's transcript; fork its session")
    if session.source != source:
        raise InvalidRequest(f"{session.path} lies on {session.source}; fork it there")
    place = _beside(session)
    writer.create(place.path, WAYS[way](database, session, place, up_to, title))
    import_written(database, source, [place.path])
    return place.session_id


# -- the client's way --------------------------------------------------------------------------------------------------------


def _as_client(
    database: Database, session: Transcript, place: Place, up_to: str | None, title: str | None
) -> Iterator[dict[str, Any]]:
    resumed = chain.resume(database.read, session, rules="current", leaf=up_to, last=None)
    if not resumed.entries:
        raise InvalidRequest(f"{session.path} has no conversation to fork: {resumed.leaf_reason}")
    with database.read() as connection:
        for record in _about(connection, session.file):
            yield {**record, "sessionId": place.session_id}
    if title is not None:
        yield {"type": "custom-title", "customTitle": clean_title(title), "sessionId": place.session_id}
    for record in _hung(zip(resumed.entries, map(load, resumed.lines()), strict=True)):
        yield {**record, "sessionId": place.session_id, **_request(record, session)}


def _about(connection: Connection, file: int) -> list[dict[str, Any]]:
    """The latest of each kind of line that goes along, and all replaced contents, in file order."""
    latest = (
        select(func.max(entries.c.offset))
        .where(entries.c.file == file, entries.c.type.in_(_GO_ALONG), entries.c.standing != SALVAGED)
        .group_by(entries.c.type)
    )
    wanted = (entries.c.offset.in_(latest)) | (entries.c.type == "content-replacement")
    rows = connection.execute(
        select(*entries.c["offset", "length", "crc"]).where(entries.c.file == file, wanted).order_by(entries.c.offset)
    )
    return [load(data) for data in records(connection, file, [At(*row) for row in rows])]


def _hung(chained: Iterable[tuple[ChainEntry, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The messages of a chain, each below the one before it, and results below their calls, as the client writes them.

    A result that hangs on its call is found again by its reply's id. So it does only while nothing but the reply, its results
    and lines beside them came before it; else it hangs on the line before, and so do the others of that reply.
    """
    before: str | None = None
    reply: str | None = None
    callers: dict[str, str] = {}  # of the reply: the line of each call
    for entry, record in chained:
        above = before
        blocks = list(content_blocks(record["message"].get("content"))) if entry.type in ("user", "assistant") else []
        answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if entry.type == "assistant":
            if entry.message_id != reply:
                reply, callers = entry.message_id, {}
            callers |= {str(block.get("id")): entry.uuid for block in blocks if block.get("type") == "tool_use"}
        elif entry.type == "user" and answered:
            named = record.get("sourceToolAssistantUUID")
            caller = named if named in callers.values() else callers.get(str(answered[0]))
            above, reply = (caller, reply) if reply is not None and caller is not None else (before, None)
        elif entry.type == "user" and record.get("isMeta") is not True:
            reply = None
        yield {**record, "parentUuid": above}
        before = entry.uuid


def _request(record: dict[str, Any], session: Transcript) -> dict[str, str | None]:
    """The session in which a reply's request is found."""
    if record.get("requestRef") is None or "requestSessionId" in record:
        return {}
    return {"requestSessionId": session.session_id}


# -- the SDK's way -----------------------------------------------------------------------------------------------------------


def _as_sdk(
    database: Database, session: Transcript, place: Place, up_to: str | None, title: str | None
) -> Iterator[dict[str, Any]]:
    with database.read() as connection:
        taken, replaced = _taken(connection, session, up_to)
        info = catalog.info(connection, session.file)
    if all(line.kind == "progress" for line in taken):
        raise InvalidRequest(f"{session.path} has no messages to fork")
    if title is None:
        given = info.title if info.title_kind in ("custom-title", "ai-title") else _cut(info.first_prompt or "")
        title = f"{given or 'Forked session'} (fork)"
    return _anew(taken, replaced, session, place, clean_title(title))


class _Line(NamedTuple):
    uuid: str
    parent: object
    kind: str
    data: bytes


def _taken(connection: Connection, session: Transcript, up_to: str | None) -> tuple[list[_Line], list[Any]]:
    """The lines of the conversation up to a message, in file order, and all replaced contents. Memory: the file."""
    found: list[_Line] = []
    replaced: list[Any] = []
    is_past = False
    for data, record in _records(connection, session.file):
        uuid, kind = record.get("uuid"), record.get("type")
        if kind in _CHAIN and isinstance(uuid, str):
            if not is_past and not record.get("isSidechain"):
                found.append(_Line(uuid, record.get("parentUuid"), kind, data))
                is_past = uuid == up_to
        elif kind == "content-replacement" and record.get("sessionId") == session.session_id:
            contents = record.get("replacements")
            replaced += contents if isinstance(contents, list) else []
    if up_to is not None and not is_past:
        raise NotFound(f"{session.path} has no message {up_to}; see: transcripts branches")
    return found, replaced


def _records(connection: Connection, file: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The records of a file that the client sees, with their bytes."""
    kept = Archive(connection, file)
    for block in blocks(kept.read_at, 0, kept.size):
        for line in lines(block):
            for entry in parse(line, "").entries:
                if entry.standing != SALVAGED:
                    begin = entry.offset - line.offset
                    yield line.data[begin : begin + entry.length], entry.value


def _anew(taken: list[_Line], replaced: list[Any], session: Transcript, place: Place, title: str) -> Iterator[dict[str, Any]]:
    """The lines of the fork."""
    new = {line.uuid: str(uuids.uuid4()) for line in taken}
    bridges = {line.uuid: line.parent if line.kind == "progress" else line.uuid for line in taken}
    moment = now()
    last = max(at for at, line in enumerate(taken) if line.kind != "progress")
    for at, line in enumerate(taken):
        if line.kind == "progress":
            continue
        (record,) = exact(Line(0, line.data, True))
        logical = record.get("logicalParentUuid")
        record |= {
            "uuid": new[line.uuid],
            "parentUuid": new.get(_past_progress(line.parent, bridges)),
            "logicalParentUuid": new.get(logical) if isinstance(logical, str) and logical else logical,
            "sessionId": place.session_id,
            "timestamp": moment if at == last else record.get("timestamp", moment),
            "isSidechain": False,
            "forkedFrom": {"sessionId": session.session_id, "messageUuid": line.uuid},
        }
        yield {name: value for name, value in record.items() if name not in _PART_WAYS}
    if replaced:
        yield _stamped({"type": "content-replacement", "sessionId": place.session_id, "replacements": replaced}, moment)
    yield _stamped({"type": "custom-title", "sessionId": place.session_id, "customTitle": title}, moment)


def _cut(prompt: str) -> str:
    return prompt if len(prompt) <= _PROMPT else f"{prompt[:_PROMPT].rstrip()}…"


def _past_progress(parent: object, bridges: dict[str, object]) -> str:
    """The line that a parent leads to past progress lines, '' for none."""
    seen: set[str] = set()
    while isinstance(parent, str) and parent in bridges and parent not in seen:
        if bridges[parent] == parent:
            return parent
        seen.add(parent)
        parent = bridges[parent]
    return ""


def _stamped(record: dict[str, Any], moment: str) -> dict[str, Any]:
    return {**record, "uuid": str(uuids.uuid4()), "timestamp": moment}


# -- both --------------------------------------------------------------------------------------------------------------------


def _beside(session: Transcript) -> Place:
    new = str(uuids.uuid4())
    return Place(os.path.join(os.path.dirname(session.path), f"{new}.jsonl"), new, True)


WAYS = {"client": _as_client, "sdk": _as_sdk}
