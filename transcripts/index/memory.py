"""What was found out from a database and holds as long as nothing is written to it.

Invariants:
- The version is taken before what is kept was read: what is written meanwhile makes it forgotten, never kept.
- Nothing is kept of a database that does not tell whether it was written to (PostgreSQL).
- It may be used by several threads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_MOST = 32  # answers


class Memory:
    """The answers that were given last, each with the version of the database (`Database.version`) that it was read from."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()

    def recall(self, key: Hashable, version: int | None) -> Any:
        """What was kept by this key, when the database is as it was then; else None."""
        with self._lock:
            then, answer = self._kept.get(key, (None, None))
            return answer if version is not None and then == version else None

    def keep(self, key: Hashable, version: int | None, answer: object) -> None:
        """Remember an answer that was read after the version was taken."""
        if version is None:
            return
        with self._lock:
            self._kept[key] = version, answer
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
