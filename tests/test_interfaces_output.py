"""What is shown of a transcript is harmless and readable, whatever the transcript holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.builders import Home, Json, Log, call, result, session_id, text
from tests.shell import run
from transcripts.interfaces.cli.output import home_shortened, one_line, safe, size, wrapped
from transcripts.interfaces.cli.reading import Part, parts, role
from transcripts.interfaces.cli.times import iso, local, short

HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J \u202egnp.exe \x00\x08\x7f\ud83d [bold]x[/bold] :smile:"
DANGEROUS = set("\x1b\x9b\x00\x08\x7f\x07\r\u202e\ud83d")


@pytest.fixture(autouse=True)
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe: no width is set."""
    monkeypatch.delenv("COLUMNS", raising=False)


class TestSafety:
    @pytest.mark.parametrize(
        ("hostile", "harmless"),
        [
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
            ("\x1b]0;never ended, and this stays", "·]0;never ended, and this stays"),
            ("a\rb\r\nc\td", "a·b\nc\td"),
            ("\u202eabc\u2028\x9b\ud83d", "·abc···"),
            ("日本語 é 👩‍👩‍👧 [red]", "日本語 é 👩‍👩‍👧 [red]"),
        ],
    )
    def test_what_acts_on_a_terminal_is_taken_away_and_the_rest_stays(self, hostile: str, harmless: str) -> None:
        assert safe(hostile) == harmless

    def test_a_text_on_one_line_is_one(self) -> None:
        assert one_line("a\n\tb\x85c", 20) == "a b·c"
        assert one_line("long " * 10, 8) == "long lo…"

    @pytest.fixture
    def hostile(self, home: Home) -> Path:
        log = Log(session_id(7))
        log.user(HOSTILE)
        log.assistant([{"type": "thinking", "thinking": HOSTILE}, text(HOSTILE), call("a", HOSTILE, command=HOSTILE)])
        log.user([result("a", HOSTILE)])
        log.chain("system", subtype=HOSTILE, content=HOSTILE)
        log.chain("attachment", attachment={"type": HOSTILE, "text": HOSTILE})
        log.assistant("done")
        log.title(HOSTILE)
        log.about("tag", tag=HOSTILE)
        log.raw(b"\x1b[31mno json")
        path = home.write(log)
        run("sync", home.projects)
        return path

    @pytest.mark.parametrize(
        "arguments",
        [
            ["list"],
            ["show", "latest"],
            ["resume", "latest"],
            ["verify"],
            ["sql", "SELECT title, first_prompt FROM sessions"],
            ["show", "\x1b[31mnobody"],
            ["list", "--json"],
            ["show", "latest", "--json"],
            ["sql", "SELECT title FROM sessions", "--json"],
        ],
    )
    def test_no_command_lets_it_through(self, hostile: Path, arguments: list[str]) -> None:
        done = run(*arguments)
        assert not DANGEROUS & set(done.stdout + done.stderr)

    def test_markup_is_shown_as_it_stands(self, hostile: Path) -> None:
        assert "[bold]x[/bold] :smile:" in run("resume", "latest").stdout
        assert "[bold]x[/bold] :smile:" in run("list").stdout
        assert "[bold]x[/bold] :smile:" in run("sql", "SELECT title FROM sessions").stdout

    def test_json_gives_the_very_characters_back(self, hostile: Path) -> None:
        title = json.loads(run("list", "--json").stdout)["title"]
        assert title == HOSTILE.replace("\x00", "\ufffd").replace("\ud83d", 3 * "\ufffd")

    def test_export_and_records_are_never_changed(self, hostile: Path) -> None:
        data = hostile.read_bytes()
        assert run("export", "latest").stdout_bytes == data
        assert set(run("resume", "latest", "--format", "jsonl").stdout_bytes.splitlines()) <= set(data.splitlines())


class TestReading:
    def said(self, record: Json) -> list[Part]:
        return list(parts(record, {"a": "Bash"}))

    @pytest.mark.parametrize(
        ("record", "who"),
        [
            ({"type": "user", "message": {"content": "hello"}}, "user"),
            ({"type": "user", "message": {"content": "hello"}, "isMeta": True}, "meta"),
            ({"type": "user", "message": {"content": "hello"}, "isCompactSummary": True}, "summary"),
            ({"type": "user", "message": {"content": [result("a")]}}, "result"),
            ({"type": "user", "message": {"content": [result("a"), text("and")]}}, "user"),
            ({"type": "attachment"}, "attachment"),
            ({"type": 7}, "?"),
        ],
    )
    def test_who_speaks(self, record: Json, who: str) -> None:
        assert role(record) == who

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ({"command": "ls\n  -l"}, "Tool(ls -l)"),
            ({"path": "/x", "pattern": "def"}, "Tool(def)"),
            ({"other": 1, "last": "words"}, "Tool(words)"),
            ({}, "Tool()"),
            ("no object", "Tool()"),
        ],
    )
    def test_a_call_is_shown_with_its_target(self, given: object, shown: str) -> None:
        block = {"type": "tool_use", "id": "b", "name": "Tool", "input": given}
        assert self.said({"type": "assistant", "message": {"content": [block]}}) == [Part("call", shown)]

    def test_a_result_names_its_call_and_is_shortened(self) -> None:
        (part,) = self.said({"type": "user", "message": {"content": [result("a", "\n".join("1234567"))]}})
        assert part == Part("result", "Bash: 1\n2\n3\n4\n5\n… 2 more lines")
        (part,) = self.said({"type": "user", "message": {"content": [result("a", "x" * 9000, is_error=True)]}})
        assert part == Part("error", f"Bash: {'x' * 500}…")

    @pytest.mark.parametrize("odd", [None, 3, [], {}, [3, None, [], {}], [{"type": 3}], [{"type": "text", "text": 3}]])
    @pytest.mark.parametrize("kind", ["user", "assistant", "system", "attachment", None])
    def test_no_shape_raises(self, kind: object, odd: object) -> None:
        for record in (
            {"type": kind, "message": odd},
            {"type": kind, "message": {"content": odd}, "attachment": odd, "content": odd},
        ):
            role(record)
            self.said(record)
        self.said({"message": {"content": [{"type": "tool_result", "content": odd}, {"type": "tool_use", "input": odd}]}})


class TestWords:
    @given(st.lists(st.sampled_from(["a", "bb", " ", "   ", "日本", "x" * 30, "é", "👩‍👩‍👧"]), max_size=40), st.integers(8, 60))
    def test_a_wrapped_line_fits_and_loses_no_word(self, words: list[str], room: int) -> None:
        line = "".join(words).rstrip()
        pieces = list(wrapped(line, room))
        assert all(cell_len(piece) <= room for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(line.split())

    def test_sizes_and_paths_are_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/dev")
        assert [size(number) for number in (7, 999, 1234, 123456, 5_000_000_000)] == [
            "7 bytes",
            "999 bytes",
            "1.2 kB",
            "123 kB",
            "5.0 GB",
        ]
        assert [home_shortened(path) for path in ("/home/dev", "/home/dev/x", "/home/device")] == ["~", "~/x", "/home/device"]

    def test_times_beyond_the_calendar_are_none(self) -> None:
        assert iso(1772359200123) == "2026-03-01T10:00:00.123Z"
        assert (iso(10**18), local(10**18), short(10**18), short(None)) == (None, None, "-", "-")
