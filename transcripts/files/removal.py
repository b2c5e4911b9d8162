"""Take a session's files from the disk.

Invariants:
- Only files that still are as they were when they were kept are removed; one that changed since stays.
- No link is followed; folders go when nothing is left in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress


def remove(kept: Mapping[str, tuple[int, int]], folder: str) -> list[str]:
    """Remove files, given by path with their size in bytes and mtime in nanoseconds, then the folders left empty.

    Gives the paths removed, in order. Raises OSError.
    """
    removed = []
    for path, state in sorted(kept.items()):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if (status.st_size, status.st_mtime_ns) == state:
            os.unlink(path)
            removed.append(path)
    if os.path.islink(folder):
        return removed
    for place, _folders, _files in os.walk(folder, topdown=False):
        with suppress(OSError):  # not empty
            os.rmdir(place)
    return removed
