"""How far an import is, and what it did: to be shown to a person."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from transcripts.errors import Problem


@dataclass
class ImportReport:
    """What a sync did: numbers of files, bytes and entries, and the faults that were met, in order."""

    scanned: int = 0
    new: int = 0
    grown: int = 0
    rewritten: int = 0
    moved: int = 0
    vanished: int = 0
    bytes: int = 0
    entries: int = 0
    indexed: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was imported or marked."""
        return bool(self.new or self.grown or self.rewritten or self.moved or self.vanished or self.bytes or self.entries)


class Progress(NamedTuple):
    """How far an import is: bytes done of all that are to be done, since how many seconds, and the file at hand.

    `phase` is `files` while lines become rows, then `texts` while what was said becomes searchable.
    """

    done: int
    total: int
    seconds: float
    path: str
    phase: Literal["files", "texts"] = "files"


class Meter:
    """Adds up bytes and passes them on, at most every tenth of a second."""

    def __init__(
        self, progress: Callable[[Progress], None] | None, total: int, phase: Literal["files", "texts"] = "files"
    ) -> None:
        self._progress = progress
        self._phase: Literal["files", "texts"] = phase
        self._total = total
        self._done = 0
        self._begun = self._shown = time.monotonic()
        self.path = ""

    def __call__(self, size: int) -> None:
        self._done += size
        now = time.monotonic()
        if self._progress and now - self._shown > 0.1:
            self._shown = now
            self._progress(Progress(self._done, max(self._total, self._done), now - self._begun, self.path, self._phase))
