"""Bytes into lines, in bounded memory.

Invariants:
- Only LF ends a line: a bare CR, U+2028 and the like are part of it.
- Only bytes up to the size that was taken first are read; what a writer appends meanwhile is for the next time.
- Memory is bounded by the block size and the longest line, never by the file.
- The blocks of a range, put together, are the range, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

BLOCK_SIZE = 1024 * 1024
_READ_SIZE = 2 * 1024 * 1024

ReadAt = Callable[[int, int], bytes]
"""(offset, length) -> at most `length` bytes at `offset`; empty at the end."""


class Block(NamedTuple):
    """Consecutive bytes of a file that end at a line end, or where the range ends."""

    offset: int
    data: bytes


class Line(NamedTuple):
    """One line: `data` without its LF. `complete` is False for a last line that has none yet."""

    offset: int
    data: bytes
    complete: bool


def blocks(read_at: ReadAt, start: int, end: int) -> Iterator[Block]:
    """Cut the bytes from `start` to `end` into blocks at line ends.

    A block is at most BLOCK_SIZE long unless one line alone is longer. Stops early, without an error, where the bytes stop
    (a file that shrank meanwhile).
    """
    offset = start
    pending: list[bytes] = []  # a line longer than a read, in parts, so that joining it costs its length once
    waiting = 0
    while offset + waiting < end:
        at = offset + waiting
        data = read_at(at, min(_READ_SIZE, end - at))
        if not data:
            break
        first = data.find(b"\n") + 1
        if not first:
            pending.append(data)
            waiting += len(data)
            continue
        if waiting > BLOCK_SIZE:  # the end of a long line: it goes out alone, and no one here holds on to it
            size = waiting + first
            pending.append(data[:first])
            yield Block(offset, b"".join(_taken(pending)))
            offset, waiting, data = offset + size, 0, data[first:]
        cut = data.rfind(b"\n") + 1
        yield from _split(Block(offset, b"".join([*pending, data[:cut]]) if pending else data[:cut]))
        offset += waiting + cut
        pending = [data[cut:]] if cut < len(data) else []
        waiting = len(data) - cut
    if pending:
        yield Block(offset, b"".join(_taken(pending)))


def _taken(parts: list[bytes]) -> list[bytes]:
    taken = parts[:]
    parts.clear()
    return taken


def _split(block: Block) -> Iterator[Block]:
    offset, data = block
    start = 0
    while len(data) - start > BLOCK_SIZE:
        cut = data.rfind(b"\n", start, start + BLOCK_SIZE) + 1 or data.find(b"\n", start) + 1
        yield Block(offset + start, data[start:cut])
        start = cut
    if start < len(data):
        yield Block(offset + start, data[start:] if start else data)


def lines(block: Block) -> Iterator[Line]:
    """The lines of a block, in order. Only the last can be incomplete."""
    offset = block.offset
    parts = block.data.split(b"\n")
    tail = parts.pop()
    for part in parts:
        yield Line(offset, part, True)
        offset += len(part) + 1
    if tail:
        yield Line(offset, tail, False)
