"""One line into the records that stand on it; no line raises, and nothing around a fault is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Json, dumps, session_id, uuid
from tests.soup import lines as soup_lines
from transcripts.files.entry import GLUED, SALVAGED, WHOLE, Entry, Parsed, clean, load, millis, parse
from transcripts.files.reader import Line

RECORD: Json = {"type": "user", "uuid": uuid(1), "sessionId": session_id(1), "message": {"role": "user", "content": "hi"}}
LINE = dumps(RECORD)
OTHER = dumps({"type": "summary", "summary": "Heron", "leafUuid": uuid(1)})


def parsed(data: bytes, offset: int = 100) -> Parsed:
    return parse(Line(offset, data, True), "file")


def values(found: Parsed) -> list[Json]:
    return [entry.value for entry in found.entries]


def reasons(found: Parsed) -> list[str]:
    return [problem.reason for problem in found.problems]


class TestWholeLines:
    def test_a_record_is_the_object_itself_with_its_place(self) -> None:
        found = parsed(LINE)
        assert found == Parsed([Entry(100, len(LINE), RECORD, WHOLE)], [])

    def test_unknown_types_and_fields_are_kept(self) -> None:
        odd = {"type": "of-tomorrow", "new": {"deep": [1, None]}, "": 0}
        assert values(parsed(dumps(odd))) == [odd]

    @pytest.mark.parametrize("line", [b"", b"  ", b"\r", b"\t \r", b"\xef\xbb\xbf"])
    def test_a_blank_line_is_neither_a_record_nor_a_problem(self, line: bytes) -> None:
        assert parsed(line) == Parsed([], [])

    @pytest.mark.parametrize("line", [b"\xef\xbb\xbf" + LINE, LINE + b"\r", b"  " + LINE + b" \t", LINE + "\u2028".encode()])
    def test_bom_carriage_return_and_blanks_around_a_record_are_harmless(self, line: bytes) -> None:
        found = parsed(line)
        assert (values(found), reasons(found)) == ([RECORD], [])

    def test_a_line_separator_inside_a_string_is_text(self) -> None:
        assert values(parsed('{"a":"x\u2028y\u2029z"}'.encode())) == [{"a": "x\u2028y\u2029z"}]


class TestWhatParsersDisagreeOn:
    def test_a_lone_surrogate_is_read(self) -> None:
        found = parsed(b'{"type":"user","a":"x \\ud83d y"}')
        assert (found.entries[0].value["a"], found.problems) == ("x \ud83d y", [])

    def test_an_integer_of_thirty_digits_is_read(self) -> None:
        found = parsed(b'{"type":"user","n":123456789012345678901234567890}')
        assert (found.entries[0].value["type"], found.problems) == ("user", [])

    @pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" * 400, b"1" * 5000, b"0.1e-400"])
    def test_numbers_beyond_all_bounds_are_read(self, number: bytes) -> None:
        found = parsed(b'{"type":"user","uuid":"u","n":' + number + b"}")
        assert ([value["uuid"] for value in values(found)], found.problems) == (["u"], [])

    @pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"-Infinity"])
    def test_what_the_client_refuses_is_a_problem(self, constant: bytes) -> None:
        assert reasons(parsed(b'{"a":' + constant + b"}")) == ["no valid JSON"]

    @pytest.mark.parametrize("depth", [300, 600, 1100, 2000, 100_000])
    def test_a_record_of_any_depth_is_read_as_far_as_it_is_indexed(self, depth: int) -> None:
        found = parsed(b'{"type":"user","uuid":"u","deep":' + b"[" * depth + b"]" * depth + b',"last":1}')
        assert [(value["uuid"], value["last"]) for value in values(found)] == [("u", 1)]
        assert all("nested deeper" in reason for reason in reasons(found))

    def test_invalid_utf8_is_read_as_replacement_characters_and_told(self) -> None:
        found = parsed(b'{"type":"user","a":"x\xffy"}')
        assert (found.entries[0].value["a"], reasons(found)) == ("x\ufffdy", ["invalid UTF-8"])

    def test_of_a_key_that_stands_twice_the_last_counts(self) -> None:
        assert values(parsed(b'{"b":1,"b":2}')) == [{"b": 2}]


class TestDamagedLines:
    @pytest.mark.parametrize("line", [b"[1,2]", b'"text"', b"12", b"null", b"true"])
    def test_json_that_is_no_object_is_a_problem(self, line: bytes) -> None:
        found = parsed(line)
        assert (found.entries, len(found.problems)) == ([], 1)
        assert (found.problems[0].offset, found.problems[0].length) == (100, len(line))

    def test_a_run_of_nuls_is_a_problem(self) -> None:
        assert reasons(parsed(b"\x00" * 300)) == ["NUL bytes"]

    def test_a_record_behind_nuls_is_salvaged(self) -> None:
        found = parsed(b"\x00" * 300 + LINE)
        assert [(entry.value, entry.offset, entry.standing) for entry in found.entries] == [(RECORD, 400, SALVAGED)]
        assert len(found.problems) == 1

    def test_a_torn_line_is_a_problem_with_its_place_and_beginning(self) -> None:
        found = parsed(LINE[:-5])
        (problem,) = found.problems
        assert (problem.path, problem.offset, problem.length, problem.reason) == ("file", 100, len(LINE) - 5, "no valid JSON")
        assert LINE.decode().startswith(problem.excerpt)

    def test_of_two_objects_on_a_line_the_first_is_marked_and_the_second_salvaged(self) -> None:
        found = parsed(LINE + OTHER)
        assert [entry.standing for entry in found.entries] == [GLUED, SALVAGED]
        assert values(found) == [RECORD, json.loads(OTHER)]
        assert [entry.offset for entry in found.entries] == [100, 100 + len(LINE)]
        assert reasons(found) == ["2 objects on one line"]

    @pytest.mark.parametrize("cut", [1, 20, 60, len(LINE) - 1])
    def test_a_whole_record_behind_a_cut_one_is_salvaged(self, cut: int) -> None:
        found = parsed(LINE[:cut] + OTHER)
        assert [(entry.value, entry.offset, entry.standing) for entry in found.entries] == [
            (json.loads(OTHER), 100 + cut, SALVAGED)
        ]

    def test_all_whole_records_behind_a_cut_one_are_salvaged(self) -> None:
        found = parsed(LINE[:30] + LINE + OTHER)
        assert [(entry.value, entry.standing) for entry in found.entries] == [(RECORD, SALVAGED), (json.loads(OTHER), SALVAGED)]
        assert [entry.offset for entry in found.entries] == [130, 130 + len(LINE)]

    def test_a_cut_record_between_whole_ones_is_all_that_is_lost(self) -> None:
        found = parsed(LINE + LINE[:30] + OTHER)
        assert values(found) == [RECORD, json.loads(OTHER)]
        assert [(problem.reason, problem.offset, problem.length) for problem in found.problems] == [
            ("damaged, with a whole record behind it", 100 + len(LINE), 30)
        ]

    @pytest.mark.parametrize(
        "line",
        [
            b'{"type":"user","content":"' + b'say \\"hi\\" now ' * 200_000,
            b'{"type":"user","sessionId":"' * 40_000,
            b"{}" * 200_000 + b"{",
            b'{"a":' * 200_000,
        ],
        ids=["torn string", "cut records", "glued objects", "open objects"],
    )
    def test_a_long_damaged_line_costs_no_more_than_its_length(self, line: bytes) -> None:
        assert reasons(parsed(line))[-1] == "no valid JSON"  # by its square it would take hours

    def test_an_object_inside_a_torn_record_is_not_taken_for_a_record(self) -> None:
        torn = dumps(RECORD | {"data": {"type": "user", "uuid": uuid(2), "message": {}}})[:-1]
        found = parsed(torn)
        assert (found.entries, reasons(found)) == ([], ["no valid JSON"])

    def test_an_excerpt_is_printable(self) -> None:
        assert all(problem.excerpt.isprintable() for problem in parsed(b'{"a\x00\x1b[31m\x85":').problems)


class TestAnyBytes:
    @given(st.one_of(st.binary(max_size=200), soup_lines(session_id(1))).map(lambda data: data.replace(b"\n", b"")))
    def test_no_line_raises_and_each_record_is_found_again_by_its_place(self, data: bytes) -> None:
        found = parsed(data, 0)
        for entry in found.entries:
            again = load(data[entry.offset : entry.offset + entry.length])
            assert repr(again) == repr(entry.value)  # repr: NaN and lone surrogates compare too
        for problem in found.problems:
            assert problem.offset is not None and 0 <= problem.offset <= len(data)
            problem.excerpt.encode()

    @given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=5))
    def test_a_record_of_any_values_is_read(self, value: Any) -> None:
        line = json.dumps({"type": "user", "value": value}).encode()
        assert len(parsed(line).entries) == (0 if b"NaN" in line or b"Infinity" in line else 1)


class TestTexts:
    def test_what_no_column_takes_is_replaced(self) -> None:
        assert clean("a\x00b\ud83dc") == "a\ufffdb\ufffdc"
        assert clean("größe 🚀") == "größe 🚀"

    @pytest.mark.parametrize(
        ("timestamp", "expected"),
        [
            ("1970-01-01T00:00:01.234Z", 1234),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T00:00:00", 0),
            ("2026-03-01T10:00:01.000Z", 1772359201000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("yesterday", None),
            ("", None),
            ("9999-99-99T00:00:00Z", None),
            (12345, None),
            (None, None),
            ({}, None),
        ],
    )
    def test_a_time_is_integer_milliseconds_or_none(self, timestamp: object, expected: int | None) -> None:
        assert millis(timestamp) == expected
