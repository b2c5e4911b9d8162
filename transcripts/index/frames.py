"""How bytes are kept: compressed, and named by a digest. Pure: no SQL and no file."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import zstandard

_LEVEL = 5  # in frames of 1 MiB (reader.BLOCK_SIZE) as small as level 9 in those of 512 KiB, for half the time
_STEP = 128 * 1024  # what zstd decompresses at once


class Frame(NamedTuple):
    """`length` bytes at `offset` of a file: their digest, and how they are kept."""

    offset: int
    length: int
    digest: bytes
    data: bytes


def digest(data: bytes) -> bytes:
    """What names a chunk: BLAKE2b of its bytes, 20 bytes long."""
    return hashlib.blake2b(data, digest_size=20).digest()


def framed(offset: int, data: bytes) -> Frame:
    """Compress the bytes at an offset."""
    return Frame(offset, len(data), digest(data), zstandard.ZstdCompressor(level=_LEVEL).compress(data))


class Unframed:
    """The bytes that a frame holds, decompressed only as far as they were asked for."""

    def __init__(self, data: bytes) -> None:
        self._reader = zstandard.ZstdDecompressor().stream_reader(data)
        self._bytes = bytearray()

    def read(self, begin: int, end: int) -> bytes:
        """The bytes from `begin` to `end`, as many as there are. Raises zstandard.ZstdError for what is no frame.

        Cost: those up to `end`, once.
        """
        while len(self._bytes) < end and (more := self._reader.read(_STEP)):
            self._bytes += more
        with memoryview(self._bytes) as view:
            return bytes(view[begin:end])
