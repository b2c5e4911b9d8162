"""The bytes of records, read in one pass: from the file on disk while it is as it was imported, else from the kept chunks.

Invariants:
- A record from the live file is given only when its checksum is the one that was imported; at the first that differs the rest
  comes from the chunks.
- Neighbouring records are read together; memory is a window, or the longest record.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from sqlalchemy import Connection, bindparam, select

from transcripts.index.archive import Archive
from transcripts.index.schema import files

_WINDOW = 256 * 1024  # bytes
_AS_IMPORTED = select(*files.c["path", "state", "kept_size", "mtime_ns", "inode"]).where(files.c.id == bindparam("file"))


class Place(NamedTuple):
    """Where a record lies in its file, and the crc32 of its bytes."""

    offset: int
    length: int
    crc: int


def records(connection: Connection, file: int, places: Iterable[tuple[int, int, int]]) -> Iterator[bytes]:
    """The records at these places (offset, length, crc32) of a file, in this order. Fastest when the places ascend."""
    waiting = iter(places)
    live = _opened(connection, file)
    if live is not None:
        try:
            start, end, window = 0, 0, b""
            for offset, length, crc in waiting:
                if offset < start or offset + length > end:
                    start, window = offset, os.pread(live, max(length, _WINDOW), offset)
                    end = start + len(window)
                data = window[offset - start : offset - start + length]
                if crc32(data) != crc:
                    waiting = itertools.chain([(offset, length, crc)], waiting)
                    break
                yield data
        finally:
            os.close(live)
    kept: Archive | None = None
    start, end, window = 0, 0, b""
    for offset, length, _crc in waiting:
        if offset < start or offset + length > end:
            kept = kept or Archive(connection, file)
            start, window = kept.around(offset, length)
            end = start + len(window)
        yield window[offset - start : offset - start + length]


def _opened(connection: Connection, file: int) -> int | None:
    """The file on disk, open, when it is still the one that was imported."""
    row = connection.execute(_AS_IMPORTED, {"file": file}).one()
    if row.state != "live":
        return None
    try:
        descriptor = os.open(row.path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if (status.st_size, status.st_mtime_ns, str(status.st_ino)) == (row.kept_size, row.mtime_ns, row.inode):
        return descriptor
    os.close(descriptor)
    return None
