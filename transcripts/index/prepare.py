"""Bytes into what the tables take, as far as that hangs on the bytes alone: it may be done in another process.

Invariants:
- Pure functions. Entries are numbered from 0 and lines from 1 in each batch; derive.py gives them their keys.
- Nothing that the bytes contain raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from transcripts.files.entry import Entry, parse
from transcripts.files.reader import Block, Line, lines
from transcripts.index.frames import Frame, framed
from transcripts.index.rows import Rows
from transcripts.index.scope import Place
from transcripts.index.text import Texts, texts

BATCH_BYTES = 4 * 1024 * 1024  # a transaction: about a tenth of a second
_UNFINISHED = "unfinished line"


class Batch(NamedTuple):
    """Consecutive blocks of a file that are added in one transaction, and whether they reach to where it is read to."""

    blocks: list[Block]
    is_last: bool

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(block.data) for block in self.blocks)

    @property
    def end(self) -> int:
        """Where it ends in the file; 0 for an empty one."""
        return self.blocks[-1].offset + len(self.blocks[-1].data) if self.blocks else 0


class Prepared(NamedTuple):
    """What a batch holds: rows, how many complete lines, where they end (0: there is none), and the bytes to be kept."""

    rows: Rows
    lines: int
    end: int
    frames: list[Frame]


class Record(NamedTuple):
    """A record to be searched: the key of its entry, its bytes (None: they cannot be read), its type, where its file lies, and
    the tools that it answers."""

    key: int
    data: bytes | None
    kind: str
    place: Place
    answered: list[str]


def batches(source: Iterator[Block]) -> Iterator[Batch]:
    """Blocks in portions of a transaction; one empty portion when there are none."""
    some: list[Block] = []
    size = 0
    for block in source:
        if size + len(block.data) > BATCH_BYTES and some:
            yield Batch(some, False)
            some, size = [], 0
        some.append(block)
        size += len(block.data)
    yield Batch(some, True)


def prepare(batch: Batch, path: str, kept: int, stands: bool, is_side: bool) -> Prepared:
    """Parse the lines of a batch, unless it is a side file's, and compress what lies behind `kept`.

    `stands`: the rows of the first line are there already.
    """
    frames = [
        framed(max(offset, kept), data[max(0, kept - offset) :]) for offset, data in batch.blocks if offset + len(data) > kept
    ]
    rows = Rows()
    count = end = 0
    for line in () if is_side else chain.from_iterable(map(lines, batch.blocks)):
        if stands:
            stands = False
        else:
            _add(rows, line, count + 1, path)
        if line.complete:
            count += 1
            end = line.offset + len(line.data) + 1
    return Prepared(rows, count, end, frames)


def searchable(records: list[Record]) -> list[tuple[int, Texts | tuple[()] | None]]:
    """What to index of records, by key: see text.py; `()` for one whose bytes cannot be read."""
    return [(key, () if data is None else texts(data, kind, place, answered)) for key, data, kind, place, answered in records]


def bytes_of(entry: Entry, line: Line) -> bytes:
    """The bytes of a record: the line itself, uncopied, when the record fills it."""
    begin = entry.offset - line.offset
    return line.data[begin : begin + entry.length]


def _add(rows: Rows, line: Line, number: int, path: str) -> None:
    parsed = parse(line, path)
    for entry in parsed.entries:
        rows.add(len(rows.entries), number, entry, bytes_of(entry, line))
    if parsed.entries or line.complete:
        rows.problems += parsed.problems
    elif parsed.problems:
        rows.problems.append(parsed.problems[-1]._replace(reason=_UNFINISHED))
    if not parsed.entries and line.complete:
        rows.add_blank(len(rows.entries), number, line.offset, line.data)
