"""Where transcripts lie: a path in, the transcript files and their side files out.

Invariants:
- The place of a file says what it is (FORMAT.md section 1 names all layouts); no file is opened here.
- A session's id is its file's name, never a `sessionId` in its lines. An old top-level `agent-<id>.jsonl` does not say whose
  it is: its session id is None until its lines are read.
- Folders below a session are never entered through a link, so a loop of links ends; only regular files count, so a pipe
  named `x.jsonl` never blocks.
- A folder that cannot be read is a Problem and its path is kept apart: who marks vanished files must leave alone what was
  not seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple

from transcripts.errors import Problem

Kind = Literal["main", "agent", "side"]

SUBAGENTS = "subagents"
_LAST_TIME = 2**63 - 1
_JOURNAL = "journal.jsonl"  # the event log of a workflow run: kept, but no transcript


class TranscriptFile(NamedTuple):
    """A file as it stands on disk: a main transcript, a sub-agent's, or a side file of a session.

    `name` is the path below the session's folder (agent and side files) or the file's name (main, and old top-level agent
    files). `size` in bytes, `mtime_ns` and `ctime_ns` in nanoseconds since 1970 UTC.
    """

    path: str
    kind: Kind
    project_key: str
    session_id: str | None
    agent_id: str | None
    name: str
    size: int
    mtime_ns: int
    ctime_ns: int
    device: int
    inode: int


class Scan(NamedTuple):
    """What one look at a root found.

    `root` is the real path that was looked at, `unread` the folders that exist and could not be read (the root itself when
    it is missing), `problems` says why.
    """

    root: str
    files: list[TranscriptFile]
    unread: list[str]
    problems: list[Problem]


def scan(path: str | os.PathLike[str], sessions_only: bool = False) -> Scan:
    """Look at a config folder, a projects folder, a project, a session's folder or one file.

    With `sessions_only` main transcripts are looked at and nothing else: no folder of a session is read.
    Order: projects by name, within a project by name. Never raises for what it finds; a path that does not exist is a
    Problem. Cost: one directory read a folder and one stat a file.
    """
    root = _real(path)
    found = Scan(root, [], [], [])
    if not _storable(found, root):
        found.unread.append(root)
        return found
    try:
        status = os.stat(root)
        if stat.S_ISREG(status.st_mode):
            found.files.append(_file(root, placed(root), status))
            return found
        names = sorted(os.listdir(root))
    except (OSError, UnicodeEncodeError, ValueError) as error:
        return _failed(found, root, error)
    if "projects" in names and os.path.isdir(os.path.join(root, "projects")):
        inner = scan(os.path.join(root, "projects"), sessions_only)
        return inner if inner.root != root else found
    if _is_session(root) or os.path.isfile(f"{root}.jsonl"):
        project, session = root.split(os.sep)[-2:]
        if not sessions_only:
            _scan_session(found, project, session, root)
        return found
    for folder in [root] if _is_project(root, names) else _folders(root, names):
        _scan_project(found, folder, sessions_only)
    found.files.sort(key=lambda file: file.path)
    return found


def placed(path: str) -> tuple[Kind, str, str | None, str | None, str]:
    """Tell from a path alone what a file is: kind, project key, session id, agent id, name (as in TranscriptFile)."""
    parts = path.split(os.sep)
    for at in range(len(parts) - 2, 1, -1):
        if _is_below_session(parts[at], parts[at + 1 :]):
            return _below_session(parts[at - 2], parts[at - 1], "/".join(parts[at:]))
    if not parts[-1].endswith(".jsonl") and len(parts) > 2:
        return _below_session(parts[-3], parts[-2], parts[-1])
    return _in_project(parts[-2], parts[-1])


def _is_below_session(folder: str, rest: list[str]) -> bool:
    """Whether a folder of this name, with this below it, is one of a session: any other folder may be called so too."""
    if folder == SUBAGENTS:
        return len(rest) == 1 or rest[0] == "workflows" or rest[-1].startswith("agent-")
    return folder == "tool-results" and len(rest) == 1


def _in_project(project: str, name: str) -> tuple[Kind, str, str | None, str | None, str]:
    stem = name.removesuffix(".jsonl")
    if stem.startswith("agent-"):
        return "agent", project, None, stem.removeprefix("agent-"), name
    return "main", project, stem, None, name


def _below_session(project: str, session: str, name: str) -> tuple[Kind, str, str | None, str | None, str]:
    base = name.rsplit("/", 1)[-1]
    if name.startswith(SUBAGENTS + "/") and base.endswith(".jsonl") and base != _JOURNAL:
        return "agent", project, session, base.removesuffix(".jsonl").removeprefix("agent-"), name
    return "side", project, session, None, name


def _file(path: str, placed: tuple[Kind, str, str | None, str | None, str], status: os.stat_result) -> TranscriptFile:
    return TranscriptFile(path, *placed, *_seen(status))


def seen_again(file: TranscriptFile, status: os.stat_result) -> TranscriptFile:
    """The file as another look at it tells it."""
    return TranscriptFile(*file[:6], *_seen(status))


def _seen(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """Size, times, device and inode. Times that no database takes, centuries ahead, are the last that it does."""
    mtime, ctime = min(status.st_mtime_ns, _LAST_TIME), min(status.st_ctime_ns, _LAST_TIME)
    return status.st_size, mtime, ctime, status.st_dev, status.st_ino


def _real(path: str | os.PathLike[str]) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, which no path has: it is refused where it is looked at
        return os.path.abspath(os.fspath(path))


def _is_project(root: str, names: list[str]) -> bool:
    """A project holds transcripts, or folders of sessions whose transcript is gone; a projects folder holds projects.

    The client's own is told by its name, so that a stray file in it does not hide the projects.
    """
    if os.path.basename(root) == "projects":
        return False
    if any(name.endswith(".jsonl") for name in names):
        return True
    return any(_is_session(os.path.join(root, name)) for name in names)


def _is_session(folder: str) -> bool:
    """Whether this is a session's folder, also when its transcript is gone; no other folder is entered."""
    return any(os.path.isdir(os.path.join(folder, below)) for below in (SUBAGENTS, "tool-results"))


def _folders(root: str, names: list[str]) -> Iterator[str]:
    return (path for name in names if os.path.isdir(path := os.path.join(root, name)))


def _failed(found: Scan, path: str, error: Exception) -> Scan:
    found.unread.append(path)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    found.problems.append(Problem(path, f"cannot be read ({reason})"))
    return found


def _scan_project(found: Scan, project: str, sessions_only: bool) -> None:
    key = os.path.basename(project)
    try:
        entries = list(os.scandir(project))
    except OSError as error:
        _failed(found, project, error)
        return
    names = {entry.name for entry in entries}
    for entry in entries:
        try:
            if not _storable(found, entry.path):
                continue
            if sessions_only and (not entry.name.endswith(".jsonl") or entry.name.startswith("agent-")):
                continue
            if entry.name.endswith(".jsonl"):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    found.files.append(_file(entry.path, _in_project(key, entry.name), status))
            elif entry.is_dir(follow_symlinks=False) and (f"{entry.name}.jsonl" in names or _is_session(entry.path)):
                _scan_session(found, key, entry.name, entry.path)
        except OSError as error:
            _vanished_or_failed(found, entry.path, error)


def _scan_session(found: Scan, project_key: str, session: str, folder: str) -> None:
    """All files of a session's folder: sub-agents' transcripts and everything else the client would delete with it."""
    pending = [(folder, "")]
    while pending:
        path, below = pending.pop()
        try:
            entries = list(os.scandir(path))
        except OSError as error:
            _failed(found, path, error)
            continue
        for entry in entries:
            name = f"{below}{entry.name}"
            try:
                if not _storable(found, entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{name}/"))
                    continue
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    found.files.append(_file(entry.path, _below_session(project_key, session, name), status))
            except OSError as error:
                _vanished_or_failed(found, entry.path, error)


def _storable(found: Scan, path: str) -> bool:
    """A name that is no valid UTF-8 can be opened but not written down; say so instead of guessing."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode()
        found.problems.append(Problem(shown, "the name is no valid UTF-8; rename it to have it imported"))
        return False
    return True


def _vanished_or_failed(found: Scan, path: str, error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # deleted between the listing and the look: not there, no fault
        _failed(found, path, error)
