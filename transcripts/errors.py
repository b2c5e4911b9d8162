"""What can go wrong, told apart by whose fault it is.

TranscriptsError              misuse or circumstances; the message says what to do next
├── NotFound                  nothing answers to that name
├── Ambiguous                 a name that more than one session answers to; `candidates` lists them
├── InvalidRequest            an argument that cannot be carried out as it stands
├── FileExists                a restore would write over a file
├── NotWritten                the system did not take what was to be written to a transcript
├── TranscriptBusy            another process holds a transcript; trying again helps
├── DatabaseBusy              another process holds the database; trying again helps
├── DatabaseUnusable          the path holds no database of ours, or one that is damaged
│   ├── DatabaseTooNew        a newer release has written it
│   └── ChunkDamaged          kept bytes that cannot be read back
└── QueryRefused              SQL that fails, takes too long or would write

Problem                       a fault found in data: recorded, counted and shown, never raised

Bad input is data. A line that does not parse becomes a Problem with its place and its neighbours live on; nothing that a
transcript can contain raises one of the exceptions above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Problem(NamedTuple):
    """A fault found in data.

    `path` is the file, `offset` and `length` are bytes in it (None where the whole file is meant), `excerpt` the first
    characters of the bytes in question, printable.
    """

    path: str
    reason: str
    offset: int | None = None
    length: int | None = None
    excerpt: str = ""

    def __str__(self) -> str:
        place = self.path if self.offset is None else f"{self.path}:{self.offset}"
        return f"{place}: {self.reason}" + (f": {self.excerpt}" if self.excerpt else "")


class TranscriptsError(Exception):
    """Base of all that this package raises on purpose."""


class NotFound(TranscriptsError):
    """Nothing answers to that name."""


class Ambiguous(TranscriptsError):
    """A name that more than one session answers to."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = list(candidates)
        super().__init__(
            f"{name!r} could be any of {len(self.candidates)} sessions; give more of the id:\n  " + "\n  ".join(candidates)
        )


class InvalidRequest(TranscriptsError):
    """An argument that cannot be carried out as it stands."""


class FileExists(TranscriptsError):
    """A file stands where one would be written."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists and is not overwritten; move it away first, or name another place")


class NotWritten(TranscriptsError):
    """The system did not take what was to be written to a transcript; `__cause__` is the OSError."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(
            f"{path} could not be written ({error.strerror or error}); what stood there is untouched; mend that and try again"
        )


class TranscriptBusy(TranscriptsError):
    """Another process holds a transcript."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(f"{path} is being written by another process (waited {seconds:g} s); try again in a moment")


class DatabaseBusy(TranscriptsError):
    """Another process holds the database."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(f"{path} is being written by another process (waited {seconds:g} s); try again in a moment")


class DatabaseUnusable(TranscriptsError):
    """The path holds no database of ours, or a damaged one."""


class DatabaseTooNew(DatabaseUnusable):
    """A newer release has written the database."""

    def __init__(self, path: str, revision: str) -> None:
        super().__init__(
            f"{path} was written by a newer release (revision {revision}); "
            "run: pip install --upgrade transcripts   (or name another database with --db)"
        )


class ChunkDamaged(DatabaseUnusable):
    """Kept bytes that cannot be read back."""

    def __init__(self, chunk: int, fault: str) -> None:
        super().__init__(f"chunk {chunk} {fault}; run: transcripts verify")


class QueryRefused(TranscriptsError):
    """SQL that fails, takes too long or would write."""
