"""The one open Index of a database in this process, for functions that are called without one.

Invariants:
- One database, one Index: opening costs milliseconds, asking microseconds. It may be used by several threads.
- A database that was removed or replaced on disk since is opened anew.
- A child process made by fork opens its own: a connection is never used on both sides.
"""

from __future__ import annotations

import atexit
import os
from threading import Lock

from transcripts.api import Index
from transcripts.interfaces import defaults

_PATIENCE = 60.0  # seconds: who cannot be told that an answer is stale waits rather for the writer

_held: dict[str, tuple[Index, tuple[int, int] | None]] = {}
_lock = Lock()
_of_parents: list[object] = []  # connections of a parent process, which must not even be closed here


def held_index(db: str | os.PathLike[str] | None = None) -> Index:
    """The Index of a database (by its path or URL; else the user's own), open and fresh. Raises what Index.open raises.

    Where another process writes, it waits up to a minute before it answers from what is there.
    """
    where = os.fspath(db) if db is not None else defaults.database()
    with _lock:
        index, identity = _held.get(where, (None, None))
        if index is not None and identity == _identity(where):
            return index
        if index is not None:
            index.close()
        index = Index.open(where, patience=_PATIENCE)
        _held[where] = index, _identity(where)
        return index


def close_held() -> None:
    """Close every Index that is held; the next question opens its own again."""
    with _lock:
        while _held:
            _held.popitem()[1][0].close()


def _identity(where: str) -> tuple[int, int] | None:
    try:
        status = os.stat(os.path.expanduser(where))
    except OSError:
        return None  # a URL
    return status.st_dev, status.st_ino


def _after_fork() -> None:
    global _lock
    _lock = Lock()
    _of_parents.extend(_held.values())
    _held.clear()


atexit.register(close_held)
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)
