"""The Claude Agent SDK's session store over transcripts on disk and the index (extra `sdk`).

    from transcripts.interfaces.session_store import TranscriptStore

    options = ClaudeAgentOptions(session_store=TranscriptStore("~/agents/projects"))

Invariants:
- What is appended is a line of a file below the root, laid out as the client's projects folder, on the disk when the call
  returns. It is listed, found and resumed by the index as any other session. See sessions/storing.py for what holds.
- Appends and deletes of a session happen in the order in which they were called in this process, also when a caller gave up
  waiting for one. None blocks the event loop.
- Ids of any shape are taken; an empty subpath is refused (InvalidRequest), since it could mean the session itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, TypeVar, cast

from transcripts.api import Index
from transcripts.interfaces.held import held_index
from transcripts.sessions.storing import Key, Store

try:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )
except ImportError as error:
    raise ImportError("this is a store for the Claude Agent SDK; run: pip install 'transcripts[sdk]'") from error

__all__ = ["TranscriptStore"]

T = TypeVar("T")
Record = dict[str, Any]


class TranscriptStore(SessionStore):
    """Keeps sessions of the Agent SDK as transcripts below `root`, and in the database `db` (else the user's own).

    Several stores, also of several processes, may share a root. Opening one imports what a process that was killed wrote and
    could not import any more. Raises what `Index.open` raises; the methods raise TranscriptsError, after which a call may be
    repeated.
    """

    def __init__(self, root: str | os.PathLike[str], db: str | os.PathLike[str] | None = None) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))
        self._db = db
        self._opened: tuple[Index, Store] | None = None
        self._turns: dict[tuple[str, str], Event] = {}
        self._taking = Lock()
        self._store()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries to a transcript; one whose uuid stands in it already is passed over."""
        given = cast("list[Record]", list(entries))
        await self._in_turn(key, lambda: self._store().append(_key(key), given, _fold))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript, as they were given and in their order; None for one that nothing was written to."""
        found = await asyncio.to_thread(lambda: self._store().load(_key(key)))
        return cast("list[SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, with the time in milliseconds when their transcript changed last."""
        found = await asyncio.to_thread(lambda: self._store().sessions(project_key))
        return [{"session_id": session, "mtime": mtime} for session, mtime in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK's own fold tells of each session of a project."""
        found = await asyncio.to_thread(lambda: self._store().summaries(project_key, _fold))
        return [{"session_id": session, "mtime": mtime, "data": data} for session, mtime, data in found]

    async def delete(self, key: SessionKey) -> None:
        """Remove a session with all that belongs to it, or one subpath of it: files, rows, kept bytes and search."""
        await self._in_turn(key, lambda: self._store().delete(_key(key)))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session, in order."""
        return await asyncio.to_thread(lambda: self._store().subkeys(key["project_key"], key["session_id"]))

    def _store(self) -> Store:
        index = held_index(self._db)
        opened = self._opened
        if opened is None or opened[0] is not index:
            opened = self._opened = index, index.store(self._root)
        return opened[1]

    async def _in_turn(self, key: SessionKey, work: Callable[[], T]) -> T:
        """Do something in a thread, once all that was called before for the same session is done."""
        session = (key["project_key"], key["session_id"])
        mine = Event()
        with self._taking:
            before = self._turns.get(session)
            self._turns[session] = mine

        def run() -> T:
            try:
                if before is not None:
                    before.wait()
                return work()
            finally:
                mine.set()
                with self._taking:
                    if self._turns.get(session) is mine:
                        del self._turns[session]

        # begun at once, and not stopped with the caller: a turn that is never taken would hold up all behind it
        try:
            begun = asyncio.get_running_loop().run_in_executor(None, run)
        except RuntimeError:  # the loop is about to end
            mine.set()
            raise
        return await asyncio.shield(begun)


def _key(key: SessionKey) -> Key:
    return Key(key["project_key"], key["session_id"], key.get("subpath"))


def _fold(data: Record | None, entries: list[Record]) -> Record:
    """The SDK's fold of a session's entries. One that it cannot take is passed over."""
    told: SessionSummaryEntry = {"session_id": "", "mtime": 0, "data": data or {}}
    key: SessionKey = {"project_key": "", "session_id": ""}
    try:
        return fold_session_summary(told, key, cast("list[SessionStoreEntry]", entries))["data"]
    except Exception:
        if len(entries) < 2:
            return told["data"]
        for entry in entries:
            told["data"] = _fold(told["data"], [entry])
        return told["data"]
