"""The kept bytes: every file as a list of compressed chunks.

Invariants:
- The chunks of a file in order of their offset, decompressed and put together, are its first `kept_size` bytes exactly.
- A chunk never changes once written; what it holds is named by its digest, so equal bytes are stored once, also between the
  versions of a file and between copies.
- Bytes are added at the end. What grows line by line makes small chunks; when a run of them passes CHUNK_SIZE it is merged,
  so that the bytes written stay a small multiple of the bytes kept.
- Chunks that no file refers to are gone at the end of the transaction that let go of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, exists, func, insert, select
from zstandard import ZstdError

from transcripts.errors import ChunkDamaged
from transcripts.files.reader import BLOCK_SIZE, ReadAt
from transcripts.index.bulk import run, scalar
from transcripts.index.frames import Frame, Unframed, digest, framed
from transcripts.index.schema import chunks, file_chunks

CHUNK_SIZE = BLOCK_SIZE
_FRAME = select(chunks.c.frame).where(chunks.c.id == bindparam("chunk"))

_SAME = select(chunks.c.id).where(chunks.c.digest == bindparam("digest"))
_ADDED = insert(chunks).values({name: bindparam(name) for name in ("digest", "length", "frame")})
_REFERRED = insert(file_chunks).values({name: bindparam(name) for name in ("file", "offset", "chunk")})
_LAST_BEFORE = select(func.max(file_chunks.c.offset)).where(
    file_chunks.c.file == bindparam("file"), file_chunks.c.offset <= bindparam("since")
)
_LISTED = (
    select(file_chunks.c.offset, chunks.c.length, chunks.c.id, chunks.c.digest)
    .join_from(file_chunks, chunks, file_chunks.c.chunk == chunks.c.id)
    .where(file_chunks.c.file == bindparam("file"), file_chunks.c.offset >= bindparam("first"))
    .order_by(file_chunks.c.offset)
)
_MERGED = (  # where the last chunk ends that is not small
    select(file_chunks.c.offset + chunks.c.length)
    .join_from(file_chunks, chunks, file_chunks.c.chunk == chunks.c.id)
    .where(file_chunks.c.file == bindparam("file"), chunks.c.length >= bindparam("large"))
    .order_by(file_chunks.c.offset.desc())
    .limit(1)
)


class Chunk(NamedTuple):
    """One row of a file's list: `length` bytes at `offset` of the file."""

    offset: int
    length: int
    chunk: int
    digest: bytes


def listed(connection: Connection, file: int, since: int = 0) -> list[Chunk]:
    """The chunks of a file, in order; of those that end before `since` at most the last."""
    first = since and connection.scalar(_LAST_BEFORE, {"file": file, "since": since})
    return [Chunk(*row) for row in connection.execute(_LISTED, {"file": file, "first": first or 0})]


def keep(connection: Connection, file: int, frames: Iterable[Frame]) -> None:
    """Add bytes to the end of a file. The caller raises `kept_size` in the same transaction."""
    for offset, length, name, data in frames:
        chunk = scalar(connection, _SAME, digest=name)
        if chunk is None:
            run(connection, _ADDED, digest=name, length=length, frame=data)
            chunk = scalar(connection, _SAME, digest=name)
        run(connection, _REFERRED, file=file, offset=offset, chunk=chunk)


def merge_tail(connection: Connection, file: int, end: int) -> None:
    """Merge the small chunks at a file's end into one when together they pass CHUNK_SIZE; `end` is that of its kept bytes."""
    start = scalar(connection, _MERGED, file=file, large=CHUNK_SIZE // 2) or 0
    if end - start < CHUNK_SIZE:
        return
    tail = listed(connection, file, start)
    tail = tail[1:] if tail[0].offset < start else tail
    if len(tail) < 2:
        return
    data = b"".join(_Bytes(connection, part).read(0, part.length) for part in tail)
    connection.execute(delete(file_chunks).where(file_chunks.c.file == file, file_chunks.c.offset >= tail[0].offset))
    keep(connection, file, [framed(tail[0].offset, data)])
    drop_unused(connection, [part.chunk for part in tail])


def share(connection: Connection, source: int, target: int, read_at: ReadAt) -> int:
    """Let a new version of a file refer to the chunks of an old one as far as its bytes are the same; how many bytes."""
    shared = 0
    references = []
    for part in listed(connection, source):
        if digest(read_at(part.offset, part.length)) != part.digest:
            break
        references.append({"file": target, "offset": part.offset, "chunk": part.chunk})
        shared = part.offset + part.length
    if references:
        connection.execute(insert(file_chunks), references)
    return shared


def same_bytes(connection: Connection, file: int, read_at: ReadAt) -> bool:
    """Whether a file on disk begins with all the bytes that are kept of it."""
    return all(digest(read_at(part.offset, part.length)) == part.digest for part in listed(connection, file))


def let_go(connection: Connection, file: int) -> None:
    """Remove a file's bytes; chunks that others still refer to stay."""
    parts = [part.chunk for part in listed(connection, file)]
    connection.execute(delete(file_chunks).where(file_chunks.c.file == file))
    drop_unused(connection, parts)


def drop_unused(connection: Connection, candidates: Iterable[int]) -> None:
    """Delete those of the chunks that no file refers to."""
    for chunk in candidates:
        used = exists().where(file_chunks.c.chunk == chunk)
        connection.execute(delete(chunks).where(chunks.c.id == chunk, ~used))


class _Bytes:
    """The bytes of one chunk. Raises ChunkDamaged."""

    def __init__(self, connection: Connection, part: Chunk) -> None:
        frame = connection.scalar(_FRAME, {"chunk": part.chunk})
        if frame is None:
            raise ChunkDamaged(part.chunk, "is missing")
        self._part = part
        self._unframed = Unframed(frame)

    def read(self, begin: int, end: int) -> bytes:
        end = min(end, self._part.length)
        try:
            data = self._unframed.read(begin, end)
        except ZstdError as error:
            raise ChunkDamaged(self._part.chunk, f"cannot be read ({error})") from None
        if len(data) < end - begin:  # which decompressing part by part does not notice
            raise ChunkDamaged(self._part.chunk, "cannot be read (it ends too early)")
        return data


class Archive:
    """The kept bytes of one file, readable at any place.

    Reading in ascending order decompresses each chunk once, up to what is asked for; memory is two chunks. Raises
    ChunkDamaged. What lies before `since` need not be readable: so the end of a long file costs no more than that of a short
    one.
    """

    def __init__(self, connection: Connection, file: int, since: int = 0) -> None:
        self._chunks = listed(connection, file, since)
        self._starts = [part.offset for part in self._chunks]
        self._load = lru_cache(maxsize=2)(partial(_Bytes, connection))

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return self._chunks[-1].offset + self._chunks[-1].length if self._chunks else 0

    def read_at(self, offset: int, length: int) -> bytes:
        """The bytes at `offset`, as many of `length` as there are."""
        parts: list[bytes] = []
        at = bisect_right(self._starts, offset) - 1
        while length > 0 and 0 <= at < len(self._chunks):
            part = self._chunks[at]
            begin = offset - part.offset
            data = self._load(part).read(begin, begin + length)
            if not data:
                break
            parts.append(data)
            offset += len(data)
            length -= len(data)
            at += 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def around(self, offset: int, length: int) -> tuple[int, bytes]:
        """The bytes at `offset` with those that are kept in one chunk with them, and the offset of the first."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or offset + length > self._chunks[at].offset + self._chunks[at].length:
            return offset, self.read_at(offset, length)
        part = self._chunks[at]
        return part.offset, self._load(part).read(0, part.length)

    def __iter__(self) -> Iterator[bytes]:
        """All kept bytes, chunk by chunk."""
        return (self._load(part).read(0, part.length) for part in self._chunks)
