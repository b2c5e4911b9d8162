"""The kept bytes: whatever is added in whatever pieces comes out again, in few chunks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert

from tests.builders import Home, Lab, Log, count, database_of, rows, session_id
from transcripts.index import archive
from transcripts.index.archive import Archive
from transcripts.index.frames import framed
from transcripts.index.schema import files

PIECES = st.lists(st.binary(min_size=1, max_size=300), max_size=30)


def new_file(connection: Connection, name: str = "a") -> int:
    values = {
        "source": "local", "path": name, "version": 1, "kind": "main", "project_key": "-p", "name": name, "state": "live",
        "device": 0, "inode": "0", "size": 0, "mtime_ns": 0, "ctime_ns": 0, "kept_size": 0, "imported_size": 0,
        "imported_lines": 0, "derived_version": 1,
    }  # fmt: skip
    return int(connection.execute(insert(files).returning(files.c.id), values).scalar_one())


def append(connection: Connection, file: int, data: bytes) -> None:
    archive.keep(connection, file, [framed(Archive(connection, file).size, data)])
    archive.merge_tail(connection, file, Archive(connection, file).size)


@pytest.fixture
def connection(home: Home) -> Iterator[Connection]:
    with home.open() as index, database_of(index).write() as connection:
        yield connection


class TestBytes:
    @settings(max_examples=50)
    @given(pieces=PIECES, offset=st.integers(0, 9000), length=st.integers(0, 9000))
    def test_what_is_added_piece_by_piece_is_read_at_any_place(
        self, lab: Lab, pieces: list[bytes], offset: int, length: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with lab.home("pieces").open() as index, database_of(index).write() as connection, monkeypatch.context() as patched:
            patched.setattr(archive, "CHUNK_SIZE", 500)
            file = new_file(connection)
            for piece in pieces:
                append(connection, file, piece)
            data = b"".join(pieces)
            kept = Archive(connection, file)
            assert (b"".join(kept), kept.size) == (data, len(data))
            assert kept.read_at(offset, length) == data[offset : offset + length]
            start, around = kept.around(offset, length)
            assert around[offset - start : offset - start + length] == data[offset : offset + length]

    def test_equal_bytes_are_kept_once_over_all_files(self, home: Home) -> None:
        log = Log().turns(3)
        for key in ("-a", "-b", "-c"):
            home.write(log, key=key)
        home.sync()
        with home.open() as index:
            assert (count(index, "files"), count(index, "chunks"), count(index, "file_chunks")) == (3, 1, 3)


class TestChunks:
    def test_a_file_that_grows_line_by_line_has_few_chunks_in_the_end(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive, "CHUNK_SIZE", 256 * 1024)
        chance = Random(1)
        file = new_file(connection)
        for _ in range(600):
            append(connection, file, chance.randbytes(2000))
        parts = archive.listed(connection, file)
        assert sum(part.length for part in parts) == 1_200_000
        assert len([part for part in parts if part.length < archive.CHUNK_SIZE // 2]) < 135
        assert len([part for part in parts if part.length >= archive.CHUNK_SIZE // 2]) in (3, 4)

    def test_merged_chunks_leave_none_behind(self, connection: Connection) -> None:
        file = new_file(connection)
        for at in range(300):
            append(connection, file, bytes([at % 256]) * 1000 + b"%d" % at)
        used = connection.exec_driver_sql("SELECT count(*) FROM chunks WHERE id NOT IN (SELECT chunk FROM file_chunks)")
        assert used.scalar() == 0

    def test_a_chunk_that_another_file_refers_to_outlives_a_merge_and_a_removal(self, connection: Connection) -> None:
        one, other = new_file(connection, "one"), new_file(connection, "other")
        pieces = [bytes([at]) * 60_000 for at in range(6)]
        for piece in pieces[:2]:
            append(connection, other, piece)
        for piece in pieces:
            append(connection, one, piece)
        archive.let_go(connection, one)
        assert b"".join(Archive(connection, other)) == b"".join(pieces[:2])
        archive.let_go(connection, other)
        assert connection.exec_driver_sql("SELECT count(*) FROM chunks").scalar() == 0

    def test_a_growing_transcript_costs_a_small_multiple_of_its_bytes(self, home: Home) -> None:
        """A merge writes bytes again, at most about once."""
        log = Log()
        with home.open() as index:
            written = 0
            known: set[int] = set()
            for _ in range(60):
                log.user(Random(len(log.lines)).randbytes(4000).hex())
                home.write(log)
                index.sync([home.path(session_id(1))])
                found = dict(rows(index, "SELECT id, length FROM chunks"))
                written += sum(length for key, length in found.items() if key not in known)
                known |= found.keys()
            assert written < 3 * len(log.data)
