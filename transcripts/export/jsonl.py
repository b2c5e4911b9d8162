"""JSONL out: the kept bytes of a transcript as they were, and a session's folder as the client lays it out.

Invariants:
- What is written is, byte for byte, what was imported; nothing is parsed on the way.
- A file that exists is never written over; a file appears whole or not at all, readable by its owner alone, in folders
  that only the owner can enter. No name leads out of the target folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection, select

from transcripts.errors import FileExists, InvalidRequest
from transcripts.files.private import make_folders
from transcripts.files.reader import blocks
from transcripts.files.reader import lines as split_lines
from transcripts.index.archive import Archive
from transcripts.index.schema import files

if TYPE_CHECKING:
    from transcripts.sessions.catalog import Transcript


class SupportsWrite(Protocol):
    """Whatever takes bytes."""

    def write(self, data: bytes, /) -> object: ...


def write_bytes(connection: Connection, file: int, out: SupportsWrite) -> int:
    """Write the kept bytes of a file to an open one; how many."""
    size = 0
    for data in Archive(connection, file):
        out.write(data)
        size += len(data)
    return size


def write_file(connection: Connection, file: int, path: str) -> int:
    """Write the kept bytes of a file to a new one; how many. Raises FileExists, and InvalidRequest where it cannot be written."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.lexists(path):
        raise FileExists(path)
    try:
        make_folders(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".transcripts-", delete=False) as out:  # mode 0600
            try:
                size = write_bytes(connection, file, out)
                out.flush()
                os.fsync(out.fileno())
                os.link(out.name, path)  # unlike a rename, it fails where something stands by now
            finally:
                os.unlink(out.name)
    except OSError as error:
        if os.path.lexists(path):
            raise FileExists(path) from None
        raise InvalidRequest(f"{path} cannot be written ({error.strerror}); name another place") from None
    return size


def lines(connection: Connection, file: int) -> Iterator[bytes]:
    """The lines of a file as kept, in order, without their newline."""
    kept = Archive(connection, file)
    for block in blocks(kept.read_at, 0, kept.size):
        for line in split_lines(block):
            yield line.data


def layout(connection: Connection, transcript: Transcript, with_files: bool) -> Iterator[tuple[int, str]]:
    """The files of a session and their places below a project's folder: (key, relative path), the transcript first.

    Of each the newest version; `with_files` brings sub-agents' transcripts and side files.
    """
    yield transcript.file, os.path.basename(transcript.path)
    if not with_files or transcript.session_id is None:
        return
    rows = connection.execute(
        select(files.c.id, files.c.name, files.c.path)
        .where(
            files.c.source == transcript.source,
            files.c.project_key == transcript.project_key,
            files.c.session_id == transcript.session_id,
            files.c.kind != "main",
            files.c.state != "replaced",
        )
        .order_by(files.c.name)
    )
    for key, name, path in rows:
        below = (
            os.path.basename(path) if "/" not in name and name.endswith(".jsonl") else os.path.join(transcript.session_id, name)
        )
        if ".." in below.split(os.sep) or os.path.isabs(below):
            raise InvalidRequest(f"{below!r} leads out of the folder and is not written")
        yield key, below


def write_session(connection: Connection, transcript: Transcript, folder: str, with_files: bool) -> list[str]:
    """Write a session into a project's folder; the paths written. Raises FileExists before anything is written."""
    places = [(file, os.path.join(folder, name)) for file, name in layout(connection, transcript, with_files)]
    for _file, path in places:
        if os.path.lexists(path):
            raise FileExists(path)
    for file, path in places:
        write_file(connection, file, path)
    return [path for _file, path in places]


def restore_session(connection: Connection, transcript: Transcript) -> list[str]:
    """Write a session back to where its files lay; those that still stand are left. Raises FileExists for its transcript."""
    if os.path.lexists(transcript.path):
        raise FileExists(transcript.path)
    wanted = [file for file, _name in layout(connection, transcript, with_files=True)]
    places = connection.execute(select(files.c.id, files.c.path).where(files.c.id.in_(wanted))).all()
    written = []
    for file, path in places:
        if not os.path.lexists(path):
            write_file(connection, file, path)
            written.append(path)
    return sorted(written)
