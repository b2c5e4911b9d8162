"""The session functions of the Claude Agent SDK, answered by the index: a drop-in import.

    from transcripts.interfaces.sdk_sessions import get_session_messages, list_sessions

Names, arguments, defaults and result types are the SDK's (extra `sdk`); folders are found as the SDK finds them, below
CLAUDE_CONFIG_DIR. Each call first imports what changed where it looks, so the first one imports the folder.

Invariants:
- Only files that stand on disk are told of. What is deleted here stays in the database.
- Titles, tags, prompts and the rest are the keys of whole records, wherever in the file they stand and however their bytes
  are; a summary line titles the session whose message it names.
- Messages are those of the chain that the client itself would resume: preserved messages come back, gaps are joined, and a
  damaged line costs no other. A sub-agent's parallel calls are as whole as the conversation's.
- Of several files with one id the one that changed last is meant, by every function.
- Errors are the SDK's: ValueError, FileNotFoundError; those of the database are TranscriptsError.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from transcripts.errors import InvalidRequest, NotFound, NotWritten
from transcripts.files.entry import load
from transcripts.files.place import project_key
from transcripts.interfaces.defaults import config_folder
from transcripts.interfaces.held import held_index
from transcripts.interfaces.worktrees import worktrees
from transcripts.sessions.ondisk import SessionFile

try:
    from claude_agent_sdk import ForkSessionResult, SDKSessionInfo, SessionMessage
except ImportError as error:
    raise ImportError("these functions give the Claude Agent SDK's own types; run: pip install 'transcripts[sdk]'") from error

__all__ = [
    "delete_session",
    "fork_session",
    "get_session_info",
    "get_session_messages",
    "get_subagent_messages",
    "list_sessions",
    "list_subagents",
    "rename_session",
    "tag_session",
]

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONG_NAME = 200  # characters of a folder's name before its hash
_PROMPT_LIMIT = 200  # characters


# -- reading ---------------------------------------------------------------------------------------------------------------


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    """The sessions of a project directory and the other worktrees of its repository, or of all projects; changed last first.

    Without a positive `limit` all from `offset` on.
    """
    folders = _folders(directory, include_worktrees) if directory else dict.fromkeys(_all_folders())
    places = list(folders) if directory else [_projects()]
    found: dict[str, SDKSessionInfo] = {}
    for file in held_index().session_files(places) if folders else []:
        folder, _, name = file.path.rpartition("/")
        if folder in folders and _ID.fullmatch(name.removesuffix(".jsonl")) and (info := _info(file, folders[folder])):
            found.setdefault(info.session_id, info)
    start = max(offset, 0)
    return list(found.values())[start : start + limit if limit is not None and limit > 0 else None]


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    """What list_sessions tells of one session; None when there is none, or nothing to tell of it."""
    found = _found(session_id, directory)
    for file in held_index().session_files([found.path]) if found else []:
        return _info(file, found.project if found else None)
    return None


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The conversation of a session, oldest first, or a page of it; [] when there is none."""
    found = _found(session_id, directory)
    return list(_messages(found.path, _part(limit, offset))) if found else []


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    """The ids of a session's sub-agents, by the places of their files."""
    found = _found(session_id, directory)
    return [agent.agent_id for agent in held_index().agent_files(found.path)] if found and found.has_agents else []


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The conversation of a sub-agent, oldest first, or a page of it; [] when there is none."""
    found = _found(session_id, directory) if agent_id else None
    if not found or not found.has_agents:
        return []
    index = held_index()
    for agent in index.agent_files(found.path):
        if agent.agent_id == agent_id:
            meta = index.agent_meta(agent.path)
            started_by = (_text(meta.get("toolUseId")), _text(meta.get("parentAgentId")))
            return list(_messages(agent.path, _part(limit, offset), *started_by))
    return []


# -- writing ---------------------------------------------------------------------------------------------------------------


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Give a session a title, by a line at the end of its file.

    Raises ValueError for a session id that is no uuid or an empty title, FileNotFoundError when there is no such session.
    """
    _check("session_id", session_id)
    if not title.strip():
        raise ValueError("title must be non-empty")
    with _written(session_id, directory) as path:
        held_index().rename(path, title)


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """Give a session its tag, or with None clear it, by a line at the end of its file. Raises as rename_session does."""
    _check("session_id", session_id)
    with _written(session_id, directory, "tag must be non-empty (use None to clear)") as path:
        held_index().untag(path) if tag is None else held_index().tag(path, tag)


def delete_session(session_id: str, directory: str | None = None) -> None:
    """Remove a session's file and its folder from disk; the database keeps what they held. Raises as rename_session does."""
    _check("session_id", session_id)
    with _written(session_id, directory) as path:
        held_index().delete(path)


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """Copy the messages of a session into a new one beside it, with new uuids, up to a message or all.

    Raises as rename_session does, and ValueError when there is no such message or none to copy.
    """
    _check("session_id", session_id)
    if up_to_message_id:
        _check("up_to_message_id", up_to_message_id)
    with _written(session_id, directory, f"Session {session_id} has no messages to fork") as path:
        try:
            new = held_index().fork(path, way="sdk", up_to=up_to_message_id or None, title=title)
        except NotFound:
            raise ValueError(f"Message {up_to_message_id} not found in session {session_id}") from None
    return ForkSessionResult(session_id=new)


@contextmanager
def _written(session_id: str, directory: str | None, refused: str | None = None) -> Iterator[str]:
    """The path of a session that the index knows; its errors as the SDK's, `refused` for what cannot be done as asked."""
    found = _found(session_id, directory)
    if found is None or not held_index().session_files([found.path]):
        where = f" in project directory for {directory}" if directory else " in any project directory"
        raise FileNotFoundError(
            f"Session {session_id} not found{where if os.path.isdir(_projects()) else ' (no projects directory)'}"
        )
    try:
        yield found.path
    except NotFound as error:
        raise FileNotFoundError(f"Session {session_id} not found") from error
    except InvalidRequest as error:
        raise ValueError(refused or str(error)) from error
    except NotWritten as error:
        raise error.__cause__ or error from None


# -- files -----------------------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """A session's file, and the directory of its project where that was asked for."""

    path: str
    project: str | None

    @property
    def has_agents(self) -> bool:
        return os.path.isdir(os.path.join(self.path.removesuffix(".jsonl"), "subagents"))


def _found(session_id: str, directory: str | None) -> _Found | None:
    """The file of a session that is not empty: the one of the directory, else of a worktree; of all projects the newest."""
    if not _ID.fullmatch(session_id):
        return None
    if not directory:
        everywhere = {os.path.join(folder, f"{session_id}.jsonl"): folder for folder in _all_folders()}
        changed = {path: at for path in everywhere if (at := _changed(path)) is not None}
        return _Found(os.path.realpath(max(changed, key=changed.__getitem__)), None) if changed else None
    here = _canonical(directory)
    for project in _then_worktrees(here):
        folder = _folder(project)
        path = os.path.join(folder, f"{session_id}.jsonl") if folder else None
        if path and _changed(path) is not None:
            return _Found(os.path.realpath(path), project)
    return None


def _then_worktrees(here: str) -> Iterator[str]:
    yield here
    yield from (project for project in map(_normal, worktrees(here)) if project != here)  # git is asked only when it has to be


def _folders(directory: str, include_worktrees: bool) -> dict[str, str | None]:
    """The folders of a directory's sessions, each with the directory of its project."""
    here = _canonical(directory)
    projects = _then_worktrees(here) if include_worktrees else [here]
    found: dict[str, str | None] = {}
    for project in projects:
        if folder := _folder(project):
            found.setdefault(folder, project)
    return found


def _folder(project: str) -> str | None:
    """The folder of a project's sessions, by its name, or by the beginning of a long one: clients hash the rest differently."""
    key = project_key(project)
    folder = os.path.join(_projects(), key)
    if os.path.isdir(folder):
        return os.path.realpath(folder)
    if len(key) <= _LONG_NAME:
        return None
    beginning = f"{key[:_LONG_NAME]}-"
    return next((folder for folder in _all_folders() if os.path.basename(folder).startswith(beginning)), None)


def _all_folders() -> list[str]:
    try:
        return [entry.path for entry in os.scandir(_projects()) if entry.is_dir()]
    except OSError:
        return []


def _projects() -> str:
    return os.path.realpath(os.path.join(_normal(config_folder()), "projects"))


def _changed(path: str) -> int | None:
    """When a file changed last; None when it is empty or not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns if status.st_size else None


def _canonical(directory: str) -> str:
    return _normal(os.path.realpath(directory))


def _normal(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _check(name: str, value: str) -> None:
    if not _ID.fullmatch(value):
        raise ValueError(f"Invalid {name}: {value}")


# -- results ---------------------------------------------------------------------------------------------------------------


def _info(file: SessionFile, project: str | None) -> SDKSessionInfo | None:
    """None when there is nothing to call the session by: no title, no summary, no prompt."""
    given = file.title if file.title_kind in ("custom-title", "ai-title") else None
    named = file.title if file.title_kind == "summary" else file.summary
    typed = _cut(file.first_prompt or file.command or "") or None
    summary = given or file.last_prompt or named or typed
    if not summary:
        return None
    return SDKSessionInfo(
        session_id=os.path.basename(file.path).removesuffix(".jsonl"),
        summary=summary,
        last_modified=file.mtime_ns // 1_000_000,
        file_size=file.size,
        custom_title=given,
        first_prompt=typed,
        git_branch=file.git_branch or None,
        cwd=file.cwd or project,
        tag=file.tag,
        created_at=file.created_at,
    )


def _cut(words: str) -> str:
    return words if len(words) <= _PROMPT_LIMIT else f"{words[:_PROMPT_LIMIT].rstrip()}…"


def _part(limit: int | None, offset: int) -> slice:
    if limit is not None and limit > 0:
        return slice(offset, offset + limit)
    return slice(max(offset, 0), None)


def _messages(path: str, part: slice, tool_use: str | None = None, agent: str | None = None) -> Iterator[SessionMessage]:
    for record in map(load, held_index().turns(path, part)):
        yield SessionMessage(
            type=record["type"],
            uuid=record["uuid"],
            session_id=record.get("sessionId", ""),
            message=record.get("message"),
            parent_tool_use_id=tool_use,
            parent_agent_id=agent,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
