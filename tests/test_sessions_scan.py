"""A scan reads a transcript backwards: everything from somewhere on, and no more than pays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transcripts.sessions.node import USER, Node
from transcripts.sessions.scan import _FIRST, MOST, Scan


def node(number: int) -> Node:
    return Node(number, number - 1 or None, None, number * 10, 10, 0, USER, f"uuid-{number}", None, None, None)


class Reader:
    """A file of so many lines."""

    def __init__(self, lines: int) -> None:
        self.lines = [node(number) for number in range(lines, 0, -1)]
        self.asked: list[int] = []

    def __call__(self, before: int | None, count: int) -> list[Node]:
        self.asked.append(count)
        return [line for line in self.lines if before is None or line.offset < before][:count]


class TestScan:
    @given(st.integers(0, 3000), st.lists(st.floats(0, 1), max_size=30))
    def test_reads_what_stands_at_the_end_and_at_most_three_times_what_was_of_use(self, lines: int, shares: list[float]) -> None:
        read = Reader(lines)
        scan = Scan(read)
        for share in shares:
            used = int(share * len(scan.lines))
            went_on = scan.goes_on(used)
            assert list(scan.lines.values()) == read.lines[: len(scan.lines)]
            assert not went_on or len(scan.lines) <= max(_FIRST, MOST * used)
            assert not scan.is_whole or len(scan.lines) == lines

    @given(st.integers(0, 20_000))
    def test_reads_all_of_a_file_of_one_conversation_in_a_few_steps(self, lines: int) -> None:
        read = Reader(lines)
        scan = Scan(read)
        while scan.goes_on(len(scan.lines)):
            pass
        assert scan.is_whole
        assert len(scan.lines) == lines
        assert len(read.asked) <= 7

    def test_does_not_begin_again_once_it_has_not_paid(self) -> None:
        read = Reader(3000)
        scan = Scan(read)
        assert scan.goes_on(0)
        assert not scan.goes_on(10)
        assert not scan.goes_on(_FIRST)
        assert len(scan.lines) == _FIRST
        assert not scan.is_whole
