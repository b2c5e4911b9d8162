"""Bytes into blocks and lines, and nothing lost on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcripts.files import reader
from transcripts.files.reader import Line, blocks, lines

TEXTS = st.lists(st.binary(max_size=40), max_size=30).map(b"\n".join)


def reading(data: bytes, most: int = 1 << 30) -> reader.ReadAt:
    return lambda offset, length: data[offset : offset + min(length, most)]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "BLOCK_SIZE", 32)
        patched.setattr(reader, "_READ_SIZE", 48)
        yield


class TestBlocks:
    @given(TEXTS, st.data())
    def test_the_blocks_of_a_range_put_together_are_the_range(self, data: bytes, choice: st.DataObject) -> None:
        start = choice.draw(st.integers(0, len(data)))
        end = choice.draw(st.integers(start, len(data)))
        found = list(blocks(reading(data), start, end))
        assert b"".join(block.data for block in found) == data[start:end]
        assert [block.offset for block in found] == [start + sum(len(b.data) for b in found[:at]) for at in range(len(found))]

    @given(TEXTS, st.integers(1, 48))
    def test_blocks_end_at_line_ends_and_are_small_unless_a_line_is_not(self, data: bytes, most: int) -> None:
        found = list(blocks(reading(data, most), 0, len(data)))
        assert all(block.data.endswith(b"\n") for block in found[:-1])
        assert all(len(block.data) <= 32 or block.data.count(b"\n", 0, -1) == 0 for block in found)

    def test_a_line_across_two_reads_makes_no_block_of_its_own(self) -> None:
        data = b"".join(b"%07d\n" % at for at in range(60))
        sizes = [len(block.data) for block in blocks(reading(data), 0, len(data))]
        assert sum(sizes) == 480 and all(size == 32 or size == 16 for size in sizes)
        data = b"".join(b"%06d\n" % at for at in range(60))
        assert min(len(block.data) for block in blocks(reading(data), 0, len(data))) > 7

    def test_bytes_that_are_no_longer_there_end_the_reading(self) -> None:
        assert [block.data for block in blocks(reading(b"ab\ncd"), 0, 100)] == [b"ab\n", b"cd"]


class TestLines:
    @given(TEXTS)
    def test_lines_and_their_ends_put_together_are_the_bytes(self, data: bytes) -> None:
        found = [line for block in blocks(reading(data), 0, len(data)) for line in lines(block)]
        assert b"".join(line.data + b"\n" * line.complete for line in found) == data
        assert all(data[line.offset : line.offset + len(line.data)] == line.data for line in found)

    def test_only_a_line_feed_ends_a_line(self) -> None:
        data = "a\rb\x0bc\x85d\u2028e\u2029f\r\n".encode()
        assert list(lines(reader.Block(0, data))) == [Line(0, data[:-1], True)]

    def test_a_last_line_without_its_end_is_incomplete(self) -> None:
        assert list(lines(reader.Block(7, b"a\n\nb"))) == [Line(7, b"a", True), Line(9, b"", True), Line(10, b"b", False)]
