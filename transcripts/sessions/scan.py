"""A transcript read backwards from its end, as long as that pays.

Most transcripts are one conversation with little beside it. There a row costs less in file order than when it is looked up
as the parent of another, and what stands beside the chain has come along.

Invariants:
- What was read is every line of the view from some offset on; at the end of all, every line of it.
- At most MOST lines are read for each that was of use, the first few aside: among dead branches a scan stops at once.
"""

from __future__ import annotations

from collections.abc import Callable

from transcripts.sessions.node import Node

MOST = 3  # lines read for each that is on the chain
_FIRST = 100  # lines read before anything can be said


class Scan:
    """The lines of a view that were read so far, by their keys, the last of the file first.

    `read` gives lines that stand before an offset, the last first, and at most so many.
    """

    def __init__(self, read: Callable[[int | None, int], list[Node]]) -> None:
        self.lines: dict[int, Node] = {}
        self.is_whole = False
        self._pays = True
        self._read = read
        self._reached: int | None = None  # an offset

    def goes_on(self, used: int) -> bool:
        """Read some more; False when there is no more, or when it has not paid, `used` being how many lines were of use.

        Each step reads a good part of what was read before, so there are few of them however long the file is.
        """
        count = MOST * used - len(self.lines) if self.lines else _FIRST
        self._pays = self._pays and count > len(self.lines) // 4
        if self.is_whole or not self._pays:
            return False
        found = self._read(self._reached, count)
        self.lines.update((node.key, node) for node in found)
        self.is_whole = len(found) < count
        self._reached = found[-1].offset if found else None
        return True
