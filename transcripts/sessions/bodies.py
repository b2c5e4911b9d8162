"""The bytes of records, read in one pass: from the file on disk while it is as it was imported, else from the kept chunks.

Invariants:
- A record from the live file is given only when its checksum is the one that was imported; at the first that differs the rest
  comes from the chunks.
- Neighbouring records are read together; memory is a window, or the longest record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from sqlalchemy import Connection, select

from transcripts.index.archive import Archive
from transcripts.index.schema import files

_WINDOW = 256 * 1024  # bytes


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
            start, window = 0, b""
            for offset, length, crc in waiting:
                begin = offset - start
                if begin < 0 or begin + length > len(window):
                    start, window, begin = offset, os.pread(live, max(length, _WINDOW), offset), 0
                data = window[begin : begin + length]
                if crc32(data) != crc:
                    yield Archive(connection, file).read_at(offset, length)
                    break
                yield data
        finally:
            os.close(live)
    kept: Archive | None = None
    for offset, length, _crc in waiting:
        kept = kept or Archive(connection, file)
        yield kept.read_at(offset, length)


def _opened(connection: Connection, file: int) -> int | None:
    """The file on disk, open, when it is still the one that was imported."""
    row = connection.execute(select(files).where(files.c.id == file)).one()
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
