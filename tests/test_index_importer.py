"""Bytes into rows: one import, any slices, any order, the same again give one content; and no bytes are too odd."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select

from tests.builders import Home, Json, Lab, Log, count, database_of, differing, dumps, result, rows, session_id, stamp, text, uuid
from tests.soup import cuts, transcripts
from transcripts.api import Index
from transcripts.files import reader
from transcripts.files.discover import TranscriptFile, scan
from transcripts.index import prepare, versions
from transcripts.index.schema import files

MB = 1024 * 1024


def grow(path: Path, data: bytes, cut: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data[file.tell() : cut])


@st.composite
def folders(draw: st.DrawFn) -> dict[int, bytes]:
    """A few sessions by number, whose records name each other."""
    return {number: draw(transcripts(session_id(number), 7)) for number in draw(st.sets(st.integers(1, 4), max_size=4))}


REPLIED = st.builds(
    lambda key, tokens, stop: {"role": "assistant", "stop_reason": stop, "usage": tokens} | ({"id": key} if key else {}),
    st.sampled_from(["chat", "chat", "chat", "chat", "other", uuid(1), None]),
    st.builds(
        lambda asked, read, output: {"input_tokens": asked, "cache_read_input_tokens": read, "output_tokens": output},
        st.sampled_from([0, 100, 200]),
        st.sampled_from([0, 0, 100]),
        st.integers(1, 3),
    ),
    st.sampled_from([None, "end_turn"]),
)
ASKED = st.sampled_from(["go on", [result("toolu_1")], [result("toolu_1")], "<command-name>/x</command-name>", None])


@st.composite
def relayed(draw: st.DrawFn) -> bytes:
    """A transcript of a relay that gives ids again; a few uuids stand for lines of either kind, and some stand twice."""
    lines = []
    for at in range(draw(st.integers(0, 16))):
        key = draw(st.sampled_from([at + 10, at + 10, 1, 2]))
        line: Json = {"uuid": uuid(key), "parentUuid": None, "timestamp": stamp(at % 3)}
        if draw(st.booleans()):
            request = draw(st.sampled_from([None, None, None, None, None, "", "req_1", "@0"]))
            line |= {"type": "assistant", "message": draw(REPLIED)} | ({} if request is None else {"requestId": request})
        else:
            asked = draw(ASKED)
            line |= {"type": "user", "message": asked and {"role": "user", "content": asked}}
            line |= draw(st.sampled_from([{}, {}, {"isMeta": True}, {"uuid": 5}]))
        lines.append(dumps(line))
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b""]))


class TestSameContent:
    @settings(max_examples=60)
    @given(data=transcripts(), choice=st.data())
    def test_an_import_in_slices_of_a_growing_file_gives_the_content_of_one_import(
        self, lab: Lab, data: bytes, choice: st.DataObject
    ) -> None:
        whole, sliced = lab.home("whole"), lab.home("sliced")
        whole.write(data)
        whole.sync()
        for cut in choice.draw(cuts(data)):
            grow(sliced.path(session_id(1)), data, cut)
            sliced.sync()
        assert differing(sliced.state(), whole.state()) == []

    @settings(max_examples=60)
    @given(data=transcripts(max_lines=20))
    def test_an_import_in_many_transactions_gives_the_content_of_one(
        self, lab: Lab, data: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, stepped = lab.home("whole"), lab.home("stepped")
        whole.write(data)
        whole.sync()
        stepped.write(data)
        with monkeypatch.context() as patched:
            patched.setattr(prepare, "BATCH_BYTES", 1)
            patched.setattr(reader, "BLOCK_SIZE", 200)
            stepped.sync()
        assert differing(stepped.state(), whole.state()) == []

    @settings(max_examples=60)
    @given(data=relayed(), choice=st.data(), steps=st.booleans())
    def test_replies_of_one_id_are_the_same_in_any_slices(
        self, lab: Lab, data: bytes, choice: st.DataObject, steps: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, sliced = lab.home("whole"), lab.home("sliced")
        whole.write(data)
        whole.sync()
        with monkeypatch.context() as patched:
            if steps:  # a transaction a line
                patched.setattr(prepare, "BATCH_BYTES", 1)
                patched.setattr(reader, "BLOCK_SIZE", 200)
            for cut in choice.draw(cuts(data)):
                grow(sliced.path(session_id(1)), data, cut)
                sliced.sync()
        assert differing(sliced.state(), whole.state()) == []

    @settings(max_examples=30)
    @given(data=relayed(), choice=st.data())
    def test_a_copy_of_replies_of_one_id_adds_none(self, lab: Lab, data: bytes, choice: st.DataObject) -> None:
        home = lab.home("copied")
        home.write(data)
        home.sync()
        before = home.state()["totals"]["responses"]
        for cut in choice.draw(cuts(data)):
            grow(home.path(session_id(2)), data, cut)
            home.sync()
        counted = {key: row | {"path": None} for key, row in home.state()["totals"]["responses"].items()}
        assert counted == {key: row | {"path": None} for key, row in before.items()}

    @settings(max_examples=60)
    @given(logs=folders(), choice=st.data())
    def test_files_in_any_order_and_in_slices_give_the_content_of_one_import(
        self, lab: Lab, logs: dict[int, bytes], choice: st.DataObject
    ) -> None:
        whole, ordered = lab.home("whole"), lab.home("ordered")
        for number, data in logs.items():
            whole.write(data, session_id(number), key=f"-p{number % 2}")
        whole.sync()
        left = {number: choice.draw(st.integers(1, 3)) for number in logs}
        for number in choice.draw(st.permutations([number for number, times in left.items() for _ in range(times)])):
            left[number] -= 1
            data = logs[number]
            path = ordered.path(session_id(number), f"-p{number % 2}")
            grow(path, data, choice.draw(st.integers(0, len(data))) if left[number] else len(data))
            ordered.sync(path)
        assert differing(ordered.state(), whole.state()) == []

    @given(data=transcripts())
    @settings(max_examples=30)
    def test_the_same_import_again_finds_nothing_new(self, lab: Lab, data: bytes) -> None:
        home = lab.home("again")
        home.write(data)
        home.sync()
        before = home.state()
        report = home.sync()
        assert (report.scanned, report.changed, report.indexed, report.problems) == (1, False, 0, [])
        assert differing(home.state(), before) == []

    def test_a_circle_of_progress_lines_that_closes_late_is_the_same_circle(self, home: Home, lab: Lab) -> None:
        names = [("user", "m", "p1"), ("progress", "p1", "p2"), ("progress", "p2", "p1")]
        lines = [dumps({"type": kind, "uuid": key, "parentUuid": parent, "message": {}}) + b"\n" for kind, key, parent in names]
        whole = lab.home("whole")
        whole.write(b"".join(lines))
        whole.sync()
        for end in (1, 2, 3):
            home.write(b"".join(lines[:end]))
            home.sync()
        assert differing(home.state(), whole.state()) == []


class TestOvertaken:
    """Another process has imported the same bytes between a look at the database and the turn to write."""

    @pytest.mark.parametrize("before", [b"", Log().turns(1).data, Log(first=500).turns(9).data])
    @pytest.mark.parametrize("name", [session_id(1), f"{session_id(1)}/tool-results/t.txt"])
    def test_who_was_overtaken_reads_again_and_adds_nothing_twice(
        self, home: Home, lab: Lab, monkeypatch: pytest.MonkeyPatch, before: bytes, name: str
    ) -> None:
        home.write(before, name)
        home.sync()
        home.write(Log().turns(3).data, name)
        current, others = versions.current, [1]

        def overtaken(*arguments: Any) -> Any:
            row = current(*arguments)
            if others.pop() if others else 0:
                with Index.open(home.db, fresh=False) as other:
                    other.sync([home.projects])
            return row

        monkeypatch.setattr(versions, "current", overtaken)
        home.sync()
        alone = lab.home("alone")
        for data in (before, Log().turns(3).data):
            alone.write(data, name)
            alone.sync()
        assert differing(home.state(), alone.state()) == []


class TestUnfinishedLine:
    def test_a_last_line_without_its_newline_counts_at_once_and_once(self, home: Home) -> None:
        data = Log().turns(2).data
        home.write(data[:-1])
        home.sync()
        with home.open() as index:
            (told,) = index.sessions()
            assert (told.message_count, told.problem_count) == (4, 0)
            assert told.unfinished == len(data[:-1]) - data[:-1].rindex(b"\n") - 1
            home.write(data)
            assert index.sync().entries == 0  # the line's rows stand
            (told,) = index.sessions()
            assert (told.message_count, told.unfinished) == (4, 0)

    def test_a_last_line_that_becomes_another_record_is_read_again(self, home: Home) -> None:
        log = Log().turns(1)
        one, other = dumps({"type": "tag", "tag": "one"}), dumps({"type": "custom-title", "customTitle": "other"})
        for end in (one, one + other, one + other + b"\n"):
            home.write(log.data + end)
            home.sync()
        with home.open() as index:
            assert [(told.tag, told.title, told.problem_count) for told in index.sessions()] == [("one", "other", 1)]
            assert index.damage() == []

    def test_a_torn_line_is_told_while_it_is_unfinished(self, home: Home) -> None:
        data = Log().turns(1).data
        home.write(data[:-20])
        home.sync()
        with home.open() as index:
            assert [problem.reason for problem in index.verify()] == ["unfinished line"]
            home.write(data)
            index.sync()
            assert index.verify() == []

    def test_what_is_behind_a_record_on_an_unfinished_line_is_told_as_it_stands_in_the_end(self, home: Home) -> None:
        record = dumps({"type": "tag", "tag": "one"})
        for end in (b"gar", b"garbage\n"):
            home.write(record + end)
            home.sync()
        with home.open() as index:
            assert [(problem.reason, problem.length) for problem in index.verify()] == [("no valid JSON", 7)]


def _chain_of(*pairs: tuple[str, str | None]) -> bytes:
    log = Log()
    for key, parent in pairs:
        log.user("x", uuid=key, parentUuid=parent)
    return log.data


class TestBadInput:
    """Nothing raises, nothing around it is lost, each fault is told with its place."""

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (b"\x00" * 500, "NUL bytes"),
            (b'{"type":"user","uuid":"x', "no valid JSON"),
            (b"[1,2]", "no JSON object"),
            (b'{"type":"user","uuid":"u","message":{"content":"\xff\xfe"}}', "invalid UTF-8"),
            (b'{"type":"user","uuid":"u","message":{"content":' + b"[" * 2000 + b"]" * 2000 + b"}}", "nested deeper than 500"),
            (b'{"type":"user","message":{"content":"no uuid"}}', "a line of type user without a uuid"),
            (b'{"type":"assistant","uuid":"u"}', "a message that is no object"),
            (b"{}", "a record without a type"),
            (dumps({"type": "user", "uuid": uuid(1), "message": {"content": "again"}}), "a uuid again"),
            (dumps({"type": "user", "uuid": "u", "parentUuid": "u", "message": {}}), "a message that is its own parent"),
            (dumps({"type": "tag", "tag": "x"}) * 2, "2 objects on one line"),
        ],
    )
    @pytest.mark.parametrize("place", ["first", "middle", "last", "torn off"])
    def test_a_bad_line_is_told_and_its_neighbours_are_there(self, home: Home, bad: bytes, reason: str, place: str) -> None:
        log = Log().turns(3)
        at = {"first": 0, "middle": 3, "last": 6, "torn off": 6}[place]
        data = b"".join(line + b"\n" for line in [*log.lines[:at], bad, *log.lines[at:]])
        path = home.write(data.removesuffix(b"\n") if place == "torn off" else data)
        home.sync()
        with home.open() as index:
            stand = rows(index, "SELECT count(*) FROM messages WHERE uuid LIKE '00000000-%'")
            assert stand == [(6,)]
            told = [problem for problem in index.faults() if "not in the file" not in problem.reason]
            assert {problem.path for problem in told} == {str(path.resolve())}
            unread = place == "torn off" and reason in ("NUL bytes", "no valid JSON", "no JSON object")
            assert told[0].reason.startswith("unfinished line" if unread else reason)
            start = len(b"".join(line + b"\n" for line in log.lines[:at]))
            again = place == "first" and reason.startswith("a uuid again")  # then it is the other one that comes again
            assert told[0].offset == (len(bad) + 1 if again else start)
            assert index.sessions()[0].problem_count == len(told)
            assert index.damage() == []

    @pytest.mark.parametrize("odd", [b"\xef\xbb\xbf", b"  ", b"\r\n", b"\n\n"])
    def test_what_the_client_reads_is_no_problem(self, home: Home, odd: bytes) -> None:
        home.write(odd + Log().turns(1).data.replace(b"\n", b"\r\n"))
        home.sync()
        with home.open() as index:
            assert (index.sessions()[0].message_count, index.verify()) == (2, [])

    @pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b"\x00" * 5000, b"\x00" * 5000 + b"\n", b"{", b"\xff" * 100])
    def test_a_file_without_a_record_is_an_empty_session(self, home: Home, data: bytes) -> None:
        home.write(data)
        home.write(Log(session_id(2)).turns(1))
        assert home.sync().new == 2
        with home.open() as index:
            assert [(told.is_empty, told.size) for told in index.sessions()][1] == (True, len(data))
            assert index.damage() == []
            assert not index.sync().changed

    def test_odd_values_in_every_field_raise_nothing(self, home: Home) -> None:
        values: list[object] = [None, True, 7, 1.5, -(2**70), "", "\x00", "\ud800", [], [[]], {}, {"a": 1}, "9" * 70_000]
        kinds = [
            *("user", "assistant", "system", "attachment", "progress", "summary", "custom-title", "tag", "last-prompt"),
            *("file-history-snapshot", "file-history-delta", "pr-link", "mode", "unheard-of"),
        ]
        fields = [
            *("uuid", "parentUuid", "timestamp", "sessionId", "cwd", "version", "gitBranch", "isSidechain", "isMeta", "message"),
            *("requestId", "agentId", "subtype", "compactMetadata", "logicalParentUuid", "summary", "leafUuid", "customTitle"),
            *("tag", "messageId", "trackingPath", "prUrl", "forkedFrom", "sourceToolAssistantUUID", "snipMetadata", "type"),
            *("explicit", "lastPrompt"),
        ]
        log = Log()
        for value in values:
            for name in fields:
                for kind in kinds:
                    log.raw(dumps({"type": kind, "uuid": "u", "message": {"content": "x"}, name: value}))
            for name in ("id", "model", "content", "usage", "role", "stop_reason"):
                log.raw(
                    dumps({"type": "assistant", "uuid": "a", "message": {"id": "m", "usage": {}, "content": [], name: value}})
                )
            for name in ("input_tokens", "output_tokens", "cache_creation", "server_tool_use", "service_tier"):
                log.raw(dumps({"type": "assistant", "uuid": "a", "message": {"id": "m", "usage": {name: value}}}))
            for name in ("type", "id", "name", "input", "tool_use_id", "content", "is_error", "text", "thinking"):
                for block in ({"type": "tool_use", "id": "t"}, {"type": "tool_result", "tool_use_id": "t"}, {"type": "text"}):
                    log.raw(dumps({"type": "user", "uuid": "b", "message": {"content": [block | {name: value}, value]}}))
        home.write(log)
        home.sync()
        with home.open() as index:
            assert count(index, "entries") == len(log.lines)
            assert index.damage() == []

    def test_parents_may_be_missing_themselves_late_or_in_a_circle(self, home: Home) -> None:
        home.write(_chain_of(("a", "absent"), ("b", "b"), ("c", "d"), ("d", None), ("e", "f"), ("f", "e")))
        home.sync()
        with home.open() as index:
            parents = "SELECT m.uuid, p.uuid FROM messages m LEFT JOIN messages p ON p.node = m.parent"
            assert dict(rows(index, parents)) == {"a": None, "b": "b", "c": "d", "d": None, "e": "f", "f": "e"}
            assert index.sessions()[0].missing_parent_count == 1

    def test_a_session_in_two_projects_is_two_transcripts(self, home: Home) -> None:
        log = Log().turns(1)
        home.write(log, key="-a")
        home.write(log.turns(1), key="-b")
        home.sync()
        with home.open() as index:
            assert [(told.project_key, told.message_count) for told in index.sessions()] == [("-b", 4), ("-a", 2)]
            found = index.transcript(session_id(1))
            assert (found.project_key, len(found.others)) == ("-b", 1)

    def test_one_uuid_in_two_files_is_two_messages(self, home: Home) -> None:
        home.write(Log(session_id(1)).turns(1))
        home.write(Log(session_id(2)).turns(2))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT count(*), count(DISTINCT uuid) FROM messages") == [(6, 4)]

    @pytest.mark.parametrize("seconds", [-(10**9), 0, 12 * 10**9])
    def test_a_file_of_any_time_is_imported_and_then_known(self, home: Home, seconds: int) -> None:
        os.utime(home.write(Log().turns(1)), (seconds, seconds))
        assert home.sync().new == 1
        assert not home.sync().changed

    def test_an_unreadable_file_is_told_and_the_others_are_read(self, home: Home, forbid: Callable[[Path], None]) -> None:
        secret = home.write(Log(session_id(1)).turns(1)).resolve()
        home.write(Log(session_id(2)).turns(1))
        forbid(secret)
        report = home.sync()
        assert [(problem.path, problem.reason) for problem in report.problems] == [
            (str(secret), "cannot be read (Permission denied)")
        ]
        with home.open() as index:
            assert [told.id for told in index.sessions()] == [session_id(2)]


class TestCountsAndTimes:
    def test_entries_keep_their_physical_line_numbers(self, home: Home) -> None:
        home.write(b"\n" + dumps({"type": "tag", "tag": "a"}) * 2 + b"\n\x00\n\n" + dumps({"type": "tag", "tag": "b"}))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT line, type FROM entries ORDER BY offset") == [
                (1, None), (2, "tag"), (2, "tag"), (3, None), (4, None), (5, "tag"),
            ]  # fmt: skip

    def test_of_a_uuid_that_stands_twice_the_later_line_stands(self, home: Home) -> None:
        log = Log()
        log.user("first", uuid="x")
        log.user("second", uuid="x", parentUuid=None)
        home.write(log)
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT offset, first_offset, parent FROM messages") == [(len(log.lines[0]) + 1, 0, None)]

    def test_a_tool_result_meets_its_call_whichever_comes_first(self, home: Home) -> None:
        log = Log()
        log.user([result("t1", "early", is_error=True)])
        home.write(log)
        home.sync()
        log.assistant([{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}}])
        log.user([result("t1", "late")])
        home.write(log)
        home.sync()
        with home.open() as index:
            told = "SELECT name, target, is_error, r.line, c.line FROM tool_calls JOIN entries r ON r.id = result_entry "
            assert rows(index, told + "JOIN entries c ON c.id = call_entry") == [("Read", "/a", 1, 1, 2)]


IMPORT_AND_TELL_PEAK = """
import resource, sys
from transcripts.api import Index
with Index.open(sys.argv[1]) as index:
    index.sync([sys.argv[2]])
try:  # on Linux getrusage counts what the process was before it became this one, too
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 * 1024 if sys.platform == "darwin" else 1024)
print(peak)
"""


class TestWork:
    def test_a_file_of_200_mb_with_a_line_of_20_mb_is_imported_in_under_200_mb_of_memory(self, home: Home) -> None:
        path = home.write(b"")
        reply, long = Log(), Log(first=10**6)
        reply.assistant([text("the kettle is slow because " * 400), result("t", "line of output\n" * 400)], id="msg")
        long.user([result("t", "größe und breite\n" * (20 * MB // 18))])
        lines = b"".join(reply.lines[0].replace(uuid(1).encode(), uuid(at).encode()) + b"\n" for at in range(1, 1000))
        with path.open("wb") as file:
            for at in range(200 * MB // len(lines) + 1):
                file.write(lines.replace(b'"uuid":"00000000-0000', b'"uuid":"%08d-0000' % at))
                file.write(long.data if at == 5 else b"")
        assert path.stat().st_size > 200 * MB and len(long.data) > 20 * MB
        command = [sys.executable, "-c", IMPORT_AND_TELL_PEAK, str(home.db), str(path)]
        assert int(subprocess.run(command, check=True, capture_output=True).stdout) < 200
        with home.open() as index:
            assert index.sessions()[0].size == path.stat().st_size

    def test_a_sync_with_nothing_to_do_over_2000_files_opens_no_transcript(self, home: Home) -> None:
        line = dumps({"type": "tag", "tag": "a"}) + b"\n"
        for at in range(2000):
            home.write(line, f"{at:08}.jsonl", key=f"-p{at % 100}")
        home.sync(home.projects / "-p7")
        opened: list[str] = []
        with home.open() as index:
            _import_like(index, scan(home.projects).files)
            with _noting_opens(opened, home.projects.resolve()):
                report = index.sync([home.projects])
                assert (report.scanned, report.changed, opened) == (2000, False, [])
            grow(home.path("00000042.jsonl", "-p42"), line * 2, 2 * len(line))
            with _noting_opens(opened, home.projects.resolve()):
                assert (index.sync().grown, [os.path.basename(path) for path in opened]) == (1, ["00000042.jsonl"])


def _import_like(index: Index, found: list[TranscriptFile]) -> None:
    """Write the rows of files as the import of the one that is there left its row; to import 2,000 takes a minute."""
    with database_of(index).write() as connection:
        model = connection.execute(select(files).limit(1)).one()._mapping
        known = set(connection.scalars(select(files.c.path)))
        for file in found:
            if file.path not in known:
                told = {name: value for name, value in file._asdict().items() if name in model}
                connection.execute(insert(files).values({**model, **told, "inode": str(file.inode), "id": None}))


_watched: list[tuple[list[str], str]] = []


@contextmanager
def _noting_opens(opened: list[str], below: Path) -> Iterator[None]:
    if not _watched:
        sys.addaudithook(_note)  # there is no way to take a hook away again
    _watched[:] = [(opened, f"{below}/")]
    yield
    _watched[:] = [([], "\0")]


def _note(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and isinstance(args[0], str):
        opened, below = _watched[0]
        if args[0].startswith(below):
            opened.append(args[0])
