"""The uuids that stand in transcripts which are written to again and again.

Invariants:
- What is known of a transcript is what stands in it, by whomever it was written: its lock is held, and what came since is
  read. Another file in its place is told by the end of what was read, and read from its start.
- Each line is read once while its transcript is remembered. Lines of every type count, so no table could answer this.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from transcripts.files import writer
from transcripts.files.entry import parse
from transcripts.files.reader import blocks, lines

_MOST = 500_000  # uuids that are remembered, of all transcripts together
_TAIL = 256  # bytes by which a transcript is known again


class Known:
    """The uuids that stand in a transcript, as far as it was read."""

    def __init__(self, status: os.stat_result) -> None:
        self.uuids: set[str] = set()
        self._file = (status.st_dev, status.st_ino)
        self._size = 0
        self._tail = b""

    def catch_up(self, transcript: writer.Locked) -> bool:
        """Read what was written since; False when this is another file than was read before."""
        status = transcript.status
        begin = max(0, self._size - _TAIL)
        if self._file != (status.st_dev, status.st_ino) or transcript.read_at(begin, self._size - begin) != self._tail:
            return False
        reached = self._size
        for block in blocks(transcript.read_at, reached, status.st_size):
            for line in lines(block):
                self.uuids.update(filter(None, (uuid_in(entry.value) for entry in parse(line, "").entries)))
                if line.complete:
                    reached = line.offset + len(line.data) + 1
        self.reached(transcript, reached)
        return True

    def new(self, given: Iterable[tuple[str | None, bytes]]) -> list[bytes]:
        """The lines among those given that are to be written."""
        lines = []
        for uuid, line in given:
            if uuid is None or uuid not in self.uuids:
                lines.append(line)
            if uuid is not None:
                self.uuids.add(uuid)
        return lines

    def reached(self, transcript: writer.Locked, size: int) -> None:
        """Note that all is known of the lines up to a size."""
        self._size = size
        begin = max(0, size - _TAIL)
        self._tail = transcript.read_at(begin, size - begin)


class KnownUuids:
    """What is known of the transcripts that were written to last. Each is taken out while it is used, under its lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, Known] = OrderedDict()

    def take(self, transcript: writer.Locked) -> Known:
        """What stands in a transcript; it is kept no more, so that a write that fails leaves nothing wrong."""
        with self._lock:
            known = self._kept.pop(transcript.path, None)
        if known is None or not known.catch_up(transcript):
            known = Known(transcript.status)
            known.catch_up(transcript)
        return known

    def keep(self, path: str, known: Known) -> None:
        """Remember what is known of a transcript, and as little of others as is needed to have room for it."""
        with self._lock:
            self._kept[path] = known
            total = sum(len(one.uuids) for one in self._kept.values())
            while total > _MOST and len(self._kept) > 1:
                total -= len(self._kept.popitem(last=False)[1].uuids)


def uuid_in(entry: Mapping[str, Any]) -> str | None:
    """What an entry is known by, if anything."""
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) and uuid else None
