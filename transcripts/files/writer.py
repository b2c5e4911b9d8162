"""Append entries to a transcript. The only writer of JSONL.

Invariants:
- Bytes that stand in a file are never changed: lines are added at its end, and a last line without its newline gets one
  first, so that a torn line never swallows the next.
- Writers of this package never interleave, whichever thread or process they are in: each holds the lock while it writes.
- The lock is `flock` on the transcript itself. A lock file beside it would be met by the client and by scans, one elsewhere
  would be missed by a process with another idea of elsewhere, and this one ends with the process that holds it. The client
  takes no lock; against it stands that lines go out in one write at the end of the file.
- Who holds a transcript's lock may wait for the database's, never the other way round.
- Files are made with mode 0600 in folders with mode 0700; one that is there keeps its mode.
- A write that fails, or is stopped, is taken back: the client has no guard, so its next line would be lost to a torn one.
  Only where others have appended meanwhile the torn line stays, for theirs stand behind it.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from transcripts.errors import FileExists, InvalidRequest, NotFound, NotWritten, TranscriptBusy
from transcripts.files.private import make_folders

LOCK_TIMEOUT = 60.0  # seconds; a lock is held for one import and one write

Entries = Iterable[Mapping[str, Any] | bytes]
"""Entries to write: objects, or the bytes of a line without its newline."""

_WAITS = (0.0005, 0.02)  # seconds between two looks at a lock: at first, and at last


class Locked:
    """A transcript whose lock is held: what is decided here about its content stays true until the block ends."""

    def __init__(self, path: str, descriptor: int, fsync: bool, is_new: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._fsync = fsync
        self._is_new = is_new

    @property
    def status(self) -> os.stat_result:
        """The file as the system tells of it."""
        return os.fstat(self._descriptor)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self.status.st_size

    def append(self, entries: Entries) -> int:
        """Write entries at the end, all with one write; how many bytes were added. Nothing for no entries.

        Raises InvalidRequest, before anything is written, for what is no line, and NotWritten: then the file is as it was,
        or, where only the disk did not answer for it, holds all of the lines.
        """
        data = b"".join(line + b"\n" for line in map(line_of, entries))
        if not data:
            return 0
        try:
            size = self.size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            _write(self._descriptor, data, size)
        except OSError as error:
            raise NotWritten(self.path, error) from error
        if self._fsync:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Wait until what was appended is on the disk, and the name of a new file. Raises NotWritten."""
        try:
            os.fsync(self._descriptor)
            if self._is_new:
                _sync_folder(self.path)
                self._is_new = False
        except OSError as error:
            raise NotWritten(self.path, error) from error

    def read_at(self, offset: int, length: int) -> bytes:
        """At most `length` bytes at `offset`; empty at the end. Raises OSError."""
        return os.pread(self._descriptor, length, offset)


@contextmanager
def locked(path: str, *, make: bool = True, fsync: bool = False) -> Iterator[Locked]:
    """Hold the lock of a transcript, to decide what to append and to append it.

    With `make` the file and its folders are made when they are not there, and the file goes again when nothing was written;
    without it NotFound is raised. `fsync` makes every append wait until its bytes are on the disk. Raises TranscriptBusy when
    another process holds the lock for a minute, and NotWritten where the file cannot be opened.
    """
    descriptor, is_new = _opened(path, make)
    try:
        yield Locked(path, descriptor, fsync, is_new)
    finally:
        try:
            if is_new and not os.fstat(descriptor).st_size:
                with suppress(OSError):
                    os.unlink(path)
        finally:
            os.close(descriptor)


def append(path: str, entries: Entries, *, make: bool = True, fsync: bool = False) -> int:
    """Append entries to a transcript under its lock; how many bytes were added. Raises what `locked` raises."""
    with locked(path, make=make, fsync=fsync) as transcript:
        return transcript.append(entries)


def create(path: str, entries: Entries) -> None:
    """Write a new transcript that appears whole or not at all. Raises FileExists and NotWritten."""
    try:
        make_folders(os.path.dirname(path))
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix=".transcripts-", delete=False) as out:  # mode 0600
            try:
                for entry in entries:
                    out.write(line_of(entry) + b"\n")
                out.flush()
                os.fsync(out.fileno())
                os.link(out.name, path)  # unlike a rename, it fails where something stands by now
                _sync_folder(path)
            finally:
                os.unlink(out.name)
    except FileExistsError:
        raise FileExists(path) from None
    except OSError as error:
        raise NotWritten(path, error) from error


def line_of(entry: Mapping[str, Any] | bytes) -> bytes:
    """An entry as a line without its newline, written as the client's language does. Raises InvalidRequest."""
    if isinstance(entry, bytes):
        if not entry or b"\n" in entry:
            raise InvalidRequest("a line is the bytes of one entry without a newline; give one for each entry")
        return entry
    try:
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"an entry holds what JSON cannot say ({error}); give texts, numbers, lists and objects") from None
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its escape, \ud83d


# -- the file ----------------------------------------------------------------------------------------------------------------


def _opened(path: str, make: bool) -> tuple[int, bool]:
    """The file that stands at a path, open and locked; whether it was made here."""
    end = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            descriptor, is_new = _open(path, make)
        except FileNotFoundError:
            raise NotFound(f"{path} is not there") from None
        except OSError as error:
            raise NotWritten(path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidRequest(f"{path} is no regular file, so nothing is written to it")
            _lock(descriptor, path, end)
            if _still_there(path, descriptor):
                return descriptor, is_new
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was deleted or replaced while its lock was waited for


def _open(path: str, make: bool) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is not waited for
    while True:
        try:
            return os.open(path, flags), False
        except FileNotFoundError:
            if not make:
                raise
        make_folders(os.path.dirname(path))
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            if not os.path.exists(path):  # a link that leads nowhere
                raise


def _lock(descriptor: int, path: str, end: float) -> None:
    wait, longest = _WAITS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise TranscriptBusy(path, LOCK_TIMEOUT) from None
        except OSError as error:
            raise NotWritten(path, error) from error
        time.sleep(wait)
        wait = min(2 * wait, longest)


def _still_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _write(descriptor: int, data: bytes, size: int) -> None:
    """Write at the end of a file of this size: all of it, or nothing while nobody else appends."""
    written = 0
    try:
        while written < len(data):  # one write, unless the system takes only a part: then the next one says why
            written += os.write(descriptor, memoryview(data)[written:])
    except BaseException:
        if 0 < written < len(data) and os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def _sync_folder(path: str) -> None:
    """Make the name of a new file last."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
