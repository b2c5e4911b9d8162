"""The live files of sessions and of their sub-agents: what a list of files shows, and what was said in them, in pages.

Invariants:
- Only what stands on disk counts: files that are gone or deleted are the catalog's.
- The turns of a file are the user and assistant lines of the chain that `resume` finds, before its drops: what is not sent
  again was said all the same. A main transcript's meta lines are machine text and no turns.
- Where the turns of a file stand is remembered while the file is as it was: of its pages only the first costs the chain.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, or_, select

from transcripts.files.entry import load
from transcripts.index.archive import Archive
from transcripts.index.rows import COMMAND
from transcripts.index.schema import entries, files, pointers, sessions, summaries, titles
from transcripts.sessions import current
from transcripts.sessions.bodies import records
from transcripts.sessions.tree import View

_REMEMBERED = 16  # files


class SessionFile(NamedTuple):
    """A session's file and what a list tells of it.

    `size` is bytes, `mtime_ns` nanoseconds and `created_at` milliseconds since 1970 UTC, the latter the time of its first
    record. `title` and `title_kind` are those of SessionInfo, `last_prompt` is what the client noted at the end, `summary` a
    summary line that names no message, `command` the first command that was given.
    """

    path: str
    size: int
    mtime_ns: int
    title: str | None
    title_kind: str | None
    last_prompt: str | None
    summary: str | None
    first_prompt: str | None
    command: str | None
    git_branch: str | None
    cwd: str | None
    tag: str | None
    created_at: int | None


class AgentFile(NamedTuple):
    """A sub-agent's file in the folder of its session."""

    agent_id: str
    path: str


def session_files(connection: Connection, source: str, places: Sequence[str]) -> list[SessionFile]:
    """The sessions whose file is one of these paths or lies below one, that changed last first; empty files are none.

    Cost: about ten microseconds a session.
    """
    about = sessions.c["file", "title", "title_kind", "first_prompt", "git_branch", "cwd", "tag"]
    timed = select(entries.c.timestamp).where(entries.c.file == sessions.c.file, entries.c.timestamp.is_not(None))
    created_at = timed.order_by(entries.c.offset).limit(1).scalar_subquery()
    rows = connection.execute(
        select(
            *files.c["path", "size", "mtime_ns"], *about, pointers.c.last_prompt, titles.c.title.label(COMMAND),
            created_at.label("oldest"),
        )
        .join(files, files.c.id == sessions.c.file)
        .outerjoin(pointers, pointers.c.file == sessions.c.file)
        .outerjoin(titles, and_(titles.c.file == sessions.c.file, titles.c.kind == COMMAND))
        .where(*_live(connection, source, "main", places), files.c.size > 0)
        .order_by(files.c.mtime_ns.desc(), files.c.path)
    ).all()  # fmt: skip
    unattached = select(summaries.c.file, summaries.c.summary).where(summaries.c.leaf_uuid.is_(None)).order_by(summaries.c.offset)
    own = {row.file: row.summary for row in connection.execute(unattached)}  # the last of each file
    return [
        SessionFile(
            path, size, mtime_ns, title, kind, last_prompt, own.get(file), first_prompt, command, branch, cwd, tag, oldest
        )
        for (
            path, size, mtime_ns, file, title, kind, first_prompt, branch, cwd, tag, last_prompt, command, oldest
        ) in rows
    ]  # fmt: skip


def agent_files(connection: Connection, source: str, folder: str) -> list[AgentFile]:
    """The sub-agents' files in a session's folder, by their place in it."""
    paths = connection.scalars(select(files.c.path).where(*_live(connection, source, "agent", [folder]))).all()
    named = sorted((path.removeprefix(folder).split("/"), path) for path in paths)
    stems = ((place[-1].removesuffix(".jsonl"), path) for place, path in named)
    return [AgentFile(stem.removeprefix("agent-"), path) for stem, path in stems if stem.startswith("agent-")]


def agent_meta(connection: Connection, source: str, path: str) -> dict[str, Any]:
    """The meta file beside a sub-agent's file, as written; {} when there is none that can be read."""
    beside = f"{path.removesuffix('.jsonl')}.meta.json"
    file = connection.scalar(select(files.c.id).where(*_live(connection, source, "side", [beside])))
    return load(b"".join(Archive(connection, file))) if file is not None else {}


def _live(connection: Connection, source: str, kind: str, places: Sequence[str]) -> list[ColumnElement[bool]]:
    below: list[ColumnElement[bool]] = [files.c.path.in_(places)]
    if connection.dialect.name == "sqlite":  # a range, so that the index on (source, path) is used: "/" + 1 is "0"
        below += [and_(files.c.path > f"{place}/", files.c.path < f"{place}0") for place in places]
    else:  # where most orders of text pass over the slashes
        below += [files.c.path.startswith(f"{place}/", autoescape=True) for place in places]
    return [files.c.source == source, or_(*below), files.c.kind == kind, files.c.state == "live"]


# -- turns -----------------------------------------------------------------------------------------------------------------


_TRANSCRIPT = select(*files.c["id", "path", "kind", "kept_size", "head_digest", "tail_digest", "derived_version"]).where(
    files.c.source == bindparam("source"), files.c.path == bindparam("path"), files.c.state == "live", files.c.kind != "side"
)


class Turns:
    """Where the turns of the files that were asked for last stand. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()

    def read(self, connection: Connection, source: str, path: str, part: slice) -> Iterator[bytes]:
        """The records of a live file's turns, oldest first, or of a part of them; nothing when there is no such file."""
        row = connection.execute(_TRANSCRIPT, {"source": source, "path": path}).one_or_none()
        if row is None:
            return
        places = self._places(connection, row)
        asked = range(0, len(places), 3)[part]
        yield from records(connection, row.id, ((places[at], places[at + 1], places[at + 2]) for at in asked))

    def _places(self, connection: Connection, row: Any) -> array[int]:
        """Offset, length and crc of each turn, one behind the other."""
        key = tuple(row)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        is_agent = row.kind == "agent"
        lines = current.find(connection, row.id, View(is_agent=is_agent)).lines
        turns = (node for node in lines if node.is_turn and (is_agent or not (node.is_meta or node.is_sidechain)))
        found = array("q", (number for node in turns for number in (node.offset, node.length, node.crc)))
        with self._lock:
            self._found[key] = found
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return found
