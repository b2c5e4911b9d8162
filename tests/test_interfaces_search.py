"""`search`: what it prints for a person, writes for a program, and says of its own answer; and the picker."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from tests.builders import CWD, Home, Log, call, millis, result, session_id, uuid
from tests.shell import COMMAND, objects, run
from tests.test_interfaces_output import DANGEROUS, HOSTILE
from transcripts.interfaces.cli import searching
from transcripts.interfaces.cli.output import one_line, safe
from transcripts.interfaces.cli.picker import Picker, as_typed
from transcripts.interfaces.cli.showing import broken, pieces
from transcripts.interfaces.cli.times import iso, short
from transcripts.sessions import matching
from transcripts.sessions.filters import KINDS, ROLES
from transcripts.sessions.hits import Hit
from transcripts.sessions.search import SearchResult

DAY = 86_400
PATIENCE = 60  # seconds without a sign of life, so that a defect does not hang
ONE, TWO = session_id(1), session_id(2)


@pytest.fixture(autouse=True)
def database(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's database is that of the test, and output is as wide as it needs."""
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def sample(home: Home, tmp_path: Path) -> Home:
    """Herons: asked, looked for, answered, left behind, below, later, in another project, and in a file since rewritten."""
    one = Log(common={"cwd": str(tmp_path)})
    one.user("a heron is asked for")  # 1
    one.assistant([call("toolu_1", "Bash", command="grep heron")], id="msg_1", model="claude-haiku-4")  # 2
    one.user([result("toolu_1", "one heron")])  # 3
    one.assistant("the heron is answered", id="msg_2", gitBranch="feature")  # 4
    one.user("heron left behind")  # 5
    one.user("go on", parentUuid=uuid(4))  # 6
    one.title("Birds of the pond")
    home.write(one)
    below = Log(first=50, common={"isSidechain": True, "agentId": "a1"})
    below.user("heron below")
    home.write(below.data, f"{ONE}/subagents/agent-a1.jsonl")
    later = Log(TWO, first=100, start=10 * DAY, common={"cwd": "/home/dev/barn"})
    later.user("heron later")
    home.write(later, key="-home-dev-barn")
    old = Log(session_id(3), first=200)
    old.user("heron replaced")
    home.write(old)
    home.sync()
    home.write(Log(session_id(3), first=300).turns(1))
    home.sync()
    return home


def numbers(*arguments: str) -> list[int]:
    """The numbers of the uuids that a search finds, in its order."""
    found = run("search", "--json", *arguments)
    return [int(hit["uuid"][-12:]) for hit in map(json.loads, found.stdout.splitlines()[:-1]) if hit["uuid"]]


class TestFilters:
    @pytest.mark.parametrize(
        ("options", "found"),
        [
            ([], {1, 2, 3, 4, 5, 50, 100}),
            (["--project", "barn"], {100}),
            (["--session", ONE], {1, 2, 3, 4, 5, 50}),
            (["--session", "latest"], {100}),
            (["--role", "assistant"], {2, 4}),
            (["--kind", "tool"], {2}),
            (["--kind", "result"], {3}),
            (["--tool", "bash"], {2, 3}),
            (["--model", "haiku"], {2}),
            (["--branch", "feature"], {4}),
            (["--since", "2026-03-05"], {100}),
            (["--until", "2026-03-05"], {1, 2, 3, 4, 5, 50}),
            (["--no-sidechains"], {1, 2, 3, 4, 5, 100}),
            (["--live"], {1, 2, 3, 4, 50, 100}),
            (["--replaced"], {1, 2, 3, 4, 5, 50, 100, 200}),
            (["--session", ONE, "--role", "user", "--live", "--no-sidechains"], {1, 3}),
            (["--no-sync"], {1, 2, 3, 4, 5, 50, 100}),
        ],
    )
    def test_each_narrows_what_is_found(self, sample: Home, options: list[str], found: set[int]) -> None:
        assert set(numbers("heron", *options)) == found

    @pytest.mark.parametrize(
        "options", [["--role", "x"], ["--kind", "x"], ["--since", "soon"], ["--limit", "-1"], ["--page", "0"]]
    )
    def test_what_there_is_not_is_wrong_usage(self, sample: Home, options: list[str]) -> None:
        assert run("search", "heron", *options).exit_code == 2

    def test_a_session_that_is_unknown_ends_with_1(self, sample: Home) -> None:
        assert run("search", "heron", "--session", "nobody").exit_code == 1

    def test_the_choices_are_those_of_the_engine(self) -> None:
        assert (tuple(searching._ROLES), tuple(searching._KINDS)) == (ROLES, KINDS)


class TestQuery:
    def test_words_of_several_arguments_are_one_query(self, sample: Home) -> None:
        assert numbers("heron", "behind") == [5]
        assert numbers("heron", "NOT", "(behind OR below)", "prompt:asked") == [1]
        assert numbers('"left behind"') == [5]

    @pytest.mark.parametrize("typed", ["heron behind", "heron\nbehind\n"])
    def test_a_hyphen_reads_standard_input(self, sample: Home, typed: str) -> None:
        assert "heron left behind" in run("search", "-", stdin=typed).stdout

    def test_bytes_that_are_no_text_are_no_error(self, sample: Home) -> None:
        done = subprocess.run([*COMMAND, "search", "-"], input=b"heron \xff behind", capture_output=True, check=True)
        assert b"left behind" in done.stdout

    def test_what_begins_with_a_hyphen_stands_behind_two(self, home: Home) -> None:
        log = Log()
        log.user("git push --no-verify")
        home.write(log)
        home.sync()
        refused = run("search", "--no-verify")
        assert (refused.exit_code, "transcripts search -- --no-verify" in refused.stderr) == (2, True)
        assert numbers("--limit", "1", "--", "--no-verify") == [1]

    @pytest.mark.parametrize("arguments", [[], ["  "], ["-"]])
    def test_no_words_at_all_are_wrong_usage(self, sample: Home, arguments: list[str]) -> None:
        done = run("search", *arguments, stdin="")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "transcripts search" in done.stderr

    def test_what_is_no_expression_is_taken_as_words_and_says_so(self, sample: Home) -> None:
        done = run("search", "(heron")
        assert done.exit_code == 0
        assert "Read as heron: " in done.stderr
        assert "plain words" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (["nonesuch"], "nowhere stands: nonesuch"),
            (["(nonesuch"], "taken as plain words: nonesuch"),
            (["!?"], "only punctuation"),
            (["heron", "--project", "nonesuch"], "no project is called 'nonesuch'"),
            (["heron", "--since", "today"], "time"),
            (["heron", "--page", "9"], "no further hits"),
        ],
    )
    def test_nothing_found_ends_with_1_and_says_why(self, sample: Home, arguments: list[str], why: str) -> None:
        done = run("search", *arguments)
        assert (done.exit_code, done.stdout) == (1, "")
        assert why in done.stderr
        *hits, told = objects("search", *arguments, code=1)
        assert (hits, bool(told["reason"])) == ([], True)

    def test_where_nothing_was_imported_it_says_what_to_do(self) -> None:
        assert "transcripts sync" in run("search", "heron").stderr


class TestText:
    def test_a_hit_in_a_pipe_is_plain_lines(self, sample: Home, tmp_path: Path) -> None:
        assert run("search", "heron below").stdout.splitlines() == [
            "Birds of the pond",
            f"  {short(millis(0))}  {tmp_path}  user/prompt  sub-agent a1",
            "  heron below",
            f"  transcripts resume {ONE} --agent a1",
        ]

    def test_where_an_id_stands_in_two_projects_the_command_means_the_session_of_the_hit(self, sample: Home) -> None:
        twin = Log(ONE, first=400, start=-20 * DAY, common={"cwd": "/elsewhere"})
        twin.user("a pelican of the same id")
        path = sample.write(twin, key="-elsewhere")
        agent = Log(ONE, first=420, start=-20 * DAY, common={"cwd": "/elsewhere", "agentId": "a9", "isSidechain": True})
        agent.user("the pelican of a sub-agent")
        sample.write(agent.data, f"{ONE}/subagents/agent-a9", key="-elsewhere")
        old = Log(ONE, first=440, start=-20 * DAY, common={"cwd": "/elsewhere", "agentId": "a8", "isSidechain": True})
        old.user("the pelican of an old sub-agent")
        sample.write(old.data, "agent-a8", key="-elsewhere")
        for words, told in (("same", []), ("sub-agent NOT old", ["--agent", "a9"]), ("old", ["--agent", "a8"])):
            words = f"pelican {words}"
            command = shlex.split(run("search", words).stdout.splitlines()[-1])
            assert command == ["transcripts", "resume", str(path.resolve()), *told]
            assert "pelican" in run(*command[1:]).stdout

    def test_messages_around_come_in_their_order(self, sample: Home) -> None:
        lines = run("search", "answered", "--context", "2").stdout.splitlines()[2:-1]
        assert [" ".join(line.split()[1:]) for line in lines] == [
            "assistant Bash grep heron",
            "user one heron",
            "heron is answered",
            "user heron left behind",
            "user go on",
        ]

    def test_copies_in_forks_are_named(self, home: Home) -> None:
        for number in range(1, 6):
            log = Log(session_id(number))
            log.user("heron copied")
            home.write(log)
        home.sync()
        lines = run("search", "heron").stdout.splitlines()
        assert sum(line == "  heron copied" for line in lines) == 1
        (copies,) = [line for line in lines if line.startswith("  also in ")]
        assert copies.endswith(" and 1 more")
        assert len(objects("search", "heron")[0]["copies"]) == 4

    def test_a_vanished_file_and_grouped_lines_are_marked(self, sample: Home) -> None:
        sample.path(ONE).unlink()
        told = run("search", "heron", "--by-session").stdout
        assert "  gone  " in told
        assert "  6 matching lines\n" in told

    def test_a_title_is_no_message(self, sample: Home) -> None:
        assert run("search", "title:birds").stdout.splitlines()[1].endswith("  title")

    def test_every_command_it_prints_works(self, sample: Home) -> None:
        log = Log("it's; echo $HOME", first=500)
        log.user("heron with an odd name")
        sample.write(log.data, "it's; echo $HOME.jsonl")
        alone = Log(session_id(9), first=900, common={"isSidechain": True, "agentId": "a9"})
        alone.user("heron of a session without a transcript")
        sample.write(alone.data, f"{session_id(9)}/subagents/agent-a9.jsonl")
        commands = [line.strip() for line in run("search", "heron").stdout.splitlines() if line.startswith("  transcripts ")]
        assert len(commands) == 9
        for command in commands:
            assert run(*shlex.split(command)[1:]).exit_code == 0, command

    @pytest.mark.parametrize("columns", [40, 100])
    def test_fits_the_columns_there_are(self, sample: Home, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        long = Log(session_id(7), first=700)
        long.title("A very long title 日本語 " * 20)
        long.user("heron " + "x" * 3000)
        long.assistant("日本語 heron " * 300)
        sample.write(long)
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run("search", "heron", "--context", "1").stdout.splitlines()
        assert len(lines) > 30
        assert [line for line in lines if cell_len(line) > columns and "transcripts resume" not in line] == []


class TestOrderAndPages:
    def test_newest_first(self, sample: Home) -> None:
        assert numbers("heron", "--newest", "--no-sidechains") == [100, 5, 4, 3, 2, 1]

    def test_one_hit_a_session(self, sample: Home) -> None:
        found = objects("search", "heron", "--by-session")[:-1]
        assert {hit["session_id"]: hit["matches"] for hit in found} == {ONE: 6, TWO: 1}

    def test_pages_hold_every_hit_once(self, sample: Home) -> None:
        every = numbers("heron")
        assert [number for page in "1234" for number in numbers("heron", "--limit", "2", "--page", page)] == every
        assert numbers("heron", "--limit", "0") == every
        assert "There are more: --page 3" in run("search", "heron", "--limit", "2", "--page", "2").stderr
        assert "more" not in run("search", "heron", "--limit", "2", "--page", "4").stderr

    def test_without_a_limit_there_are_20_and_with_0_all(self, home: Home) -> None:
        home.write(Log().turns(15))
        home.sync()
        assert (len(numbers("word")), len(numbers("word", "--limit", "0"))) == (20, 30)

    def test_numbers_of_any_size_are_no_error(self, sample: Home) -> None:
        huge = "9" * 30
        assert numbers("heron", "--limit", huge, "--context", huge) == numbers("heron")
        assert run("search", "heron", "--page", huge).exit_code == 1

    def test_only_their_number(self, sample: Home) -> None:
        assert run("search", "heron", "--count").stdout == "7\n"
        assert run("search", "heron", "--count", "--role", "assistant").stdout == "2\n"
        none = run("search", "nonesuch", "--count")
        assert (none.exit_code, none.stdout, "nowhere stands" in none.stderr) == (1, "0\n", True)
        (told,) = objects("search", "heron", "--count")
        assert (told["count"], told["query"]) == (7, "heron")

    @pytest.mark.parametrize("option", [["--limit", "3"], ["--page", "2"], ["--by-session"], ["--context", "1"]])
    def test_a_number_takes_no_page(self, sample: Home, option: list[str]) -> None:
        assert run("search", "heron", "--count", *option).exit_code == 2


class TestJson:
    def test_a_hit_has_its_place_its_marks_and_its_neighbours(self, sample: Home, tmp_path: Path) -> None:
        hit, told = objects("search", "the heron", "--context", "1", "--kind", "reply")
        assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["the", "heron"]
        assert (hit["uuid"], hit["session_id"], hit["path"]) == (uuid(4), ONE, str(sample.path(ONE)))
        assert (hit["project"], hit["title"], hit["role"], hit["kind"]) == (
            str(tmp_path),
            "Birds of the pond",
            "assistant",
            "reply",
        )
        assert (hit["timestamp"], hit["timestamp_iso"]) == (millis(3), iso(millis(3)))
        assert [said["text"] for said in hit["before"] + hit["after"]] == ["one heron", "heron left behind"]
        assert hit["before"][0]["timestamp_iso"] == iso(millis(2))
        assert told == {
            "query": "the heron", "reading": "the AND heron", "is_plain": False, "reason": None, "waiting": 0, "stale": False,
            "approximate": False, "more": False,
        }  # fmt: skip

    def test_marks_count_the_characters_of_the_text_that_is_read_back(self, home: Home) -> None:
        log = Log()
        log.user("🐦 \x1b[31m 日本語 \x00 heron")
        home.write(log)
        home.sync()
        hit = objects("search", "heron")[0]
        ((start, end),) = hit["marks"]
        assert hit["snippet"][start:end] == "heron"


class TestTruth:
    def test_lines_that_wait_are_told(self, home: Home) -> None:
        home.write(Log().turns(3))
        with home.open() as index:
            index.sync([home.projects], texts=False)
        done = run("search", "word", "--no-sync")
        assert done.exit_code == 1
        assert "6 lines not indexed yet; run: transcripts sync" in done.stderr
        assert objects("search", "word", "--no-sync", code=1)[-1]["waiting"] == 6
        assert "not indexed" not in run("search", "word").stderr

    def test_a_common_word_says_that_not_all_were_ranked(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(20))
        home.sync()
        monkeypatch.setattr(matching, "RANKED", 3)
        done = run("search", "word", "--limit", "1")
        assert "only the newest were ranked" in done.stderr
        told = objects("search", "word", "--limit", "1")[-1]
        assert (told["approximate"], told["more"]) == (True, True)
        assert "ranked" not in run("search", "word", "--limit", "1", "--newest").stderr


class TestHostile:
    @pytest.fixture
    def hostile(self, home: Home) -> Home:
        log = Log(session_id(7), common={"cwd": f"/home/{HOSTILE}", "gitBranch": HOSTILE})
        log.user(f"before {HOSTILE}")
        log.user(f"שלום heron مرحبا {HOSTILE} heron {HOSTILE}")
        log.assistant([call("a", HOSTILE, command=f"heron {HOSTILE}")])
        log.user([result("a", f"heron {HOSTILE}")])
        log.title(f"heron {HOSTILE}")
        home.write(log)
        home.write(Log(session_id(8), common={"agentId": HOSTILE}).turns(1).data, "odd\x1b[31m heron.jsonl")
        home.sync()
        return home

    @pytest.mark.parametrize("options", [[], ["--json"], ["--by-session"], ["--newest"]])
    @pytest.mark.parametrize("query", ["heron", "word", f"heron {HOSTILE}", f'"{HOSTILE}', f"title:{HOSTILE}"])
    def test_nothing_of_it_acts_on_a_terminal(self, hostile: Home, query: str, options: list[str]) -> None:
        query = query.replace("\x00", "").replace("\ud83d", "")  # no argument holds these
        done = run("search", "--context", "2", *options, "--", query)
        assert not DANGEROUS & set(done.stdout + done.stderr)

    def test_text_that_runs_from_the_right_stays(self, hostile: Home) -> None:
        assert "שלום heron مرحبا" in run("search", "heron").stdout

    def test_markup_is_shown_as_it_stands(self, hostile: Home) -> None:
        assert "[bold]x[/bold] :smile:" in run("search", "heron").stdout.splitlines()[0]

    def test_a_long_line_is_an_excerpt(self, home: Home) -> None:
        log = Log()
        log.user("y" * 40_000 + " heron " + "z" * 1_000_000)
        home.write(log)
        home.sync()
        assert len(run("search", "heron").stdout) < 1000

    def test_colour_lies_on_the_words_alone(self, hostile: Home) -> None:
        with terminal("search", "heron", "--limit", "3") as shown:
            told = shown.rest()
        assert "\x1b[33m\x1b[1mheron\x1b[0m" in told
        plain = re.sub("\x1b\\[[0-9]+m", "", told).replace("\r\n", "\n")
        assert not DANGEROUS & set(plain)

    @given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6, unique=True), st.integers(4, 30))
    def test_marks_stay_on_their_words(self, text: str, edges: list[int], room: int) -> None:
        edges = sorted(min(edge, len(text)) for edge in edges)
        marks = list(zip(edges[::2], edges[1::2], strict=False))
        found = pieces(text, marks)
        assert [one_line(piece) for piece, marked in found if marked and piece.strip()] == [
            words for start, end in marks if (words := one_line(text[start:end]))
        ]
        assert all(safe(piece) == piece and "\n" not in piece and piece for piece, _marked in found)
        lines = list(broken(found, room))
        assert all(sum(cell_len(piece) for piece, _marked in line) <= room for line in lines)
        for kind in (False, True):
            kept = "".join(piece for line in lines for piece, marked in line if marked == kind)
            assert "".join(kept.split()) == "".join("".join(piece for piece, marked in found if marked == kind).split())


# -- the picker ------------------------------------------------------------------------------------------------------------


class Shown:
    """A command on a terminal of its own."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._read = bytearray()
        self.process = process

    @property
    def told(self) -> str:
        """All that it has shown."""
        return self._read.decode("utf-8", "replace")

    def until(self, words: str) -> None:
        """Read until it has shown these words."""
        while words not in self.told:
            assert self._more(), f"ended without {words!r}: {self.told!r}"

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def rest(self) -> str:
        """Read to its end; all that it has shown."""
        while self._more():
            pass
        self.process.wait()
        return self.told

    def _more(self) -> bool:
        if not select.select([self._descriptor], [], [], PATIENCE)[0]:
            raise TimeoutError(f"nothing more is shown: {self.told!r}")
        try:
            part = os.read(self._descriptor, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that the other side is closed
                raise
            return False
        self._read += part
        return bool(part)


@contextmanager
def terminal(*arguments: str, **options: Any) -> Iterator[Shown]:
    """Run a command on a terminal of 100 columns."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **options.pop("env", {})}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=its, stdout=its, stderr=its, start_new_session=True, env=environment, **options
    )
    os.close(its)
    try:
        yield Shown(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def hit(words: str, **facts: Any) -> Hit:
    given: dict[str, Any] = {
        "session_id": ONE, "agent_id": None, "project": CWD, "title": "Birds", "path": "/x", "state": "live", "uuid": uuid(1),
        "role": "user", "kind": "prompt", "timestamp": millis(0), "snippet": words, "marks": (), "score": 1.0,
    }  # fmt: skip
    return Hit(**given | facts)


def answer(query: str, *hits: Hit, **facts: Any) -> SearchResult:
    given: dict[str, Any] = {
        "query": query, "reading": query, "is_plain": False, "reason": None if hits else "nowhere stands it", "hits": hits,
        "approximate": False, "more": False, "waiting": 0,
    }  # fmt: skip
    return SearchResult(**given | facts)


def echo(query: str) -> SearchResult:
    """Three hits that repeat the query; none for a blank one."""
    return answer(query, *(hit(f"{query} {number}") for number in range(3))) if query.strip() else answer(query)


@contextmanager
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


def picked(keys: str, text: str = "", ask: Callable[[str], SearchResult] = echo) -> str | None:
    """What is chosen by these keys."""
    with keyboard() as pressed:
        pressed.send_text(keys)
        chosen = Picker(ask, text, ask(as_typed(text))).run()
    return chosen.snippet if chosen else None


UP, DOWN, PAGE_DOWN, ENTER, ESCAPE, CONTROL_C = "\x1b[A", "\x1b[B", "\x1b[6~", "\r", "\x1b", "\x03"


class TestPicker:
    @pytest.mark.parametrize(
        ("keys", "chosen"),
        [
            (ENTER, "ab 0"),
            (DOWN + ENTER, "ab 1"),
            (DOWN + DOWN + DOWN + DOWN + UP + ENTER, "ab 1"),
            (UP + ENTER, "ab 0"),
            (PAGE_DOWN + ENTER, "ab 2"),
            (ESCAPE, None),
            (DOWN + CONTROL_C, None),
            (ESCAPE + "b" + ENTER, None),
        ],
    )
    def test_arrows_choose_enter_takes_and_escape_leaves(self, keys: str, chosen: str | None) -> None:
        assert picked(keys, "ab") == chosen

    def test_enter_takes_a_hit_of_what_was_typed_and_of_nothing_older(self) -> None:
        assert picked("c d" + DOWN + ENTER, "ab") == "abc d 0"
        assert picked("\x7f\x7fde" + ENTER, "ab") == "de 0"

    def test_enter_without_a_hit_stays(self) -> None:
        assert picked(ENTER + "ab" + ENTER) == "ab 0"

    def test_the_last_word_finds_what_begins_with_it(self) -> None:
        assert [as_typed(text) for text in ("her", "a her", "title:her", "数据库", "parse_con")] == [
            "her*", "a her*", "title:her*", "数据库*", "parse_con*",
        ]  # fmt: skip
        for text in ("", "he", "her ", "her*", '"her"', "her)", "a AND", "a NOT", "parse_c", "foo.bar()"):
            assert as_typed(text) == text

    def test_typing_goes_on_while_the_index_is_asked(self) -> None:
        """The first answer comes only when more was typed meanwhile; then that is asked for, and nothing between."""
        asked: list[str] = []
        seen: list[str] = []

        def slow(query: str) -> SearchResult:
            if query.strip():
                asked.append(query)
            if query == "a":
                keys.send_text("b" + ENTER)
                for _ in range(10_000):  # not without end, should typing be blocked
                    if picker.typed.text == "ab":
                        break
                    time.sleep(0.001)
                seen.append(picker.typed.text)
            return echo(query)

        with keyboard() as keys:
            picker = Picker(slow, "", slow(""))
            keys.send_text("a")
            chosen = picker.run()
        assert chosen is not None
        assert (chosen.snippet, asked, seen) == ("ab 0", ["a", "ab"], ["ab"])

    def test_an_error_of_the_index_leaves_and_is_raised(self) -> None:
        def failing(query: str) -> SearchResult:
            if query:
                raise OSError("no disk")
            return echo(query)

        with pytest.raises(OSError, match="no disk"):
            picked("a", ask=failing)

    def test_a_terminal_that_goes_away_chooses_nothing(self) -> None:
        with keyboard() as keys:
            picker = Picker(echo, "ab", echo("ab"))
            keys.close()
            assert picker.run() is None

    @pytest.mark.parametrize("found", [echo(""), answer("x", is_plain=True, waiting=3), answer("x", hit("y"), approximate=True)])
    def test_the_state_tells_the_truth(self, found: SearchResult) -> None:
        with keyboard():
            state = Picker(echo, found.query, found)._state()
        told = {"": "type words", "x": "taken as plain words · 3 lines not indexed"}
        assert ("ranked" if found.approximate else told[found.query]) in state

    def test_nothing_that_it_shows_acts_on_the_terminal(self) -> None:
        odd = hit(HOSTILE, title=HOSTILE, project=f"/{HOSTILE}", session_id=HOSTILE, agent_id=HOSTILE, marks=((0, 3), (8, 12)))
        with keyboard():
            picker = Picker(echo, "x", answer("x", odd))
            shown = [*picker._hits(), *picker._preview()]
        assert not DANGEROUS & {sign for _style, part, *_rest in shown for sign in part}


class TestInteractive:
    def client(self, tmp_path: Path) -> Path:
        """A client that notes how it was started."""
        program = tmp_path / "bin" / "claude"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\npwd > "$0.log"\necho "$@" >> "$0.log"\n')
        program.chmod(0o755)
        return program

    def test_enter_resumes_the_very_session_in_the_client(self, sample: Home, tmp_path: Path) -> None:
        twin = Log(ONE, first=400, start=20 * DAY, common={"cwd": "/elsewhere"})
        twin.user("another session of the same id")
        sample.write(twin, key="-elsewhere")
        program = self.client(tmp_path)
        path = f"{program.parent}:{os.environ['PATH']}"
        with terminal("search", "-i", "--project", str(tmp_path), env={"PATH": path}) as shown:
            shown.until("type words")
            shown.press("answered\r")
            shown.rest()
        assert shown.process.returncode == 0
        assert program.with_suffix(".log").read_text().splitlines() == [str(tmp_path), f"--resume {ONE}"]

    def test_enter_on_a_sub_agents_hit_resumes_the_session_of_it(self, sample: Home, tmp_path: Path) -> None:
        twin = Log(ONE, first=400, start=-20 * DAY, common={"cwd": str(sample.root)})
        twin.user("another session of the same id")
        sample.write(twin, key="-elsewhere")
        agent = Log(ONE, first=420, start=-20 * DAY, common={"cwd": str(sample.root), "agentId": "a9", "isSidechain": True})
        agent.user("the pelican of a sub-agent")
        sample.write(agent.data, f"{ONE}/subagents/agent-a9", key="-elsewhere")
        program = self.client(tmp_path)
        with terminal("search", "-i", "pelican", env={"PATH": f"{program.parent}:{os.environ['PATH']}"}) as shown:
            shown.until("1 found")
            shown.press("\r")
            shown.rest()
        assert program.with_suffix(".log").read_text().splitlines() == [str(sample.root), f"--resume {ONE}"]

    def test_without_the_client_it_writes_the_command(self, sample: Home, tmp_path: Path) -> None:
        with terminal("search", "-i", "heron", "below", env={"PATH": str(tmp_path)}) as shown:
            shown.until("1 found")
            shown.press("\r")
            told = shown.rest().splitlines()
        assert "not installed" in told[-2]
        assert told[-1] == f"transcripts resume {ONE} --agent a1"
        assert shown.process.returncode == 0

    @pytest.mark.parametrize("key", [ESCAPE, CONTROL_C])
    def test_leaving_starts_nothing(self, sample: Home, tmp_path: Path, key: str) -> None:
        program = self.client(tmp_path)
        with terminal("search", "-i", "heron", env={"PATH": f"{program.parent}:{os.environ['PATH']}"}) as shown:
            shown.until("7 found")
            shown.press(key)
            shown.rest()
        assert (shown.process.returncode, program.with_suffix(".log").exists()) == (130, False)

    def test_filters_apply(self, sample: Home) -> None:
        with terminal("search", "-i", "heron", "--role", "assistant") as shown:
            shown.until("2 found")
            shown.press(ESCAPE)
            shown.rest()

    def test_without_a_terminal_it_says_so(self, sample: Home) -> None:
        done = run("search", "-i")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "needs a terminal" in done.stderr

    @pytest.mark.parametrize("option", [["--json"], ["--count"], ["--page", "2"]])
    def test_it_takes_no_option_of_a_list(self, sample: Home, option: list[str]) -> None:
        assert "goes without" in run("search", "-i", *option).stderr

    def test_its_library_is_loaded_only_for_it(self, sample: Home) -> None:
        program = (
            "import sys\nfrom transcripts.interfaces.cli import cli\n"
            "cli.main(['search', 'heron'], standalone_mode=False)\nassert 'prompt_toolkit' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
