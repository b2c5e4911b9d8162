"""The live files of sessions and sub-agents, and the turns in them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import CWD, Home, Json, Log, call, dumps, millis, rows, session_id, stamp, uuid
from transcripts.api import Index
from transcripts.sessions import current
from transcripts.sessions.ondisk import AgentFile, SessionFile
from transcripts.sessions.tree import Way

SID = session_id(1)


def real(home: Home, *names: str) -> str:
    return os.path.realpath(home.projects.joinpath(*names))


def told(home: Home) -> list[SessionFile]:
    with Index.open(home.db) as index:
        return index.session_files([real(home)])


def turns(home: Home, path: Path, part: slice = slice(None)) -> list[str]:
    with Index.open(home.db) as index:
        return [orjson.loads(record)["uuid"] for record in index.turns(os.path.realpath(path), part)]


class TestSessionFiles:
    def test_all_that_is_told(self, home: Home) -> None:
        log = Log().turns(1, "prompt")
        log.about("last-prompt", lastPrompt="the last")
        log.about("tag", tag="feature")
        log.about("ai-title", aiTitle="the title")
        path = home.write(log)
        os.utime(path, ns=(5_000_000_001, 5_000_000_001))
        assert told(home) == [
            SessionFile(
                path=str(path.resolve()), size=len(log.data), mtime_ns=5_000_000_001, title="the title", title_kind="ai-title",
                last_prompt="the last", summary=None, first_prompt="prompt 1 ask 0", command=None, git_branch="main", cwd=CWD,
                tag="feature", created_at=millis(0),
            )
        ]  # fmt: skip

    def test_what_changed_last_comes_first(self, home: Home) -> None:
        for number in (1, 2, 3):
            os.utime(home.write(Log(session_id(number)).turns(1)), (1_700_000_000 + number % 3,) * 2)
        assert [Path(file.path).stem for file in told(home)] == [session_id(2), session_id(1), session_id(3)]

    def test_only_what_lies_there_is_told_and_imported(self, home: Home) -> None:
        for key in ("-a", "-a-b", "-c"):
            home.write(Log().turns(1), key=key)
        with Index.open(home.db) as index:
            assert [file.path for file in index.session_files([real(home, "-a")])] == [real(home, "-a", f"{SID}.jsonl")]
            assert rows(index, "SELECT DISTINCT project_key FROM files") == [("-a",)]
            both = index.session_files([real(home, "-a"), real(home, "-c", f"{SID}.jsonl")])
            assert {file.path for file in both} == {real(home, key, f"{SID}.jsonl") for key in ("-a", "-c")}

    def test_no_sub_agent_is_imported_for_it_and_none_is_lost(self, home: Home) -> None:
        home.write(Log().turns(1))
        agent = home.write(Log(first=50).turns(1).data, f"{SID}/subagents/agent-a1.jsonl")
        with Index.open(home.db, fresh=False) as index:
            index.sync([home.projects])
        home.write(Log(first=50).turns(2).data, f"{SID}/subagents/agent-a1.jsonl")
        with Index.open(home.db) as index:
            index.session_files([real(home)])
        with Index.open(home.db, fresh=False) as index:
            about = "SELECT state, kept_size < ? FROM files WHERE kind = 'agent'"
            assert rows(index, about, agent.stat().st_size) == [("live", 1)]

    def test_what_is_gone_or_empty_is_not_told(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        home.write(b"", session_id(2))
        assert len(told(home)) == 1
        path.unlink()
        assert told(home) == []

    def test_a_caller_may_change_the_list(self, home: Home) -> None:
        home.write(Log().turns(1))
        with Index.open(home.db) as index:
            index.session_files([real(home)]).clear()
            assert len(index.session_files([real(home)])) == 1

    @pytest.mark.parametrize("first", [{"timestamp": "soon"}, {}, {"snapshot": {"timestamp": stamp(-9)}}, {"timestamp": 7}])
    def test_created_at_is_the_first_time_of_a_record(self, home: Home, first: Json) -> None:
        log = Log()
        log.about("mode", **first)
        log.about("mode", timestamp=stamp(5))
        log.turns(1)
        home.write(log)
        assert [file.created_at for file in told(home)] == [millis(5)]


class TestWords:
    """What a session is called by, taken from lines of any shape."""

    def only(self, home: Home, *records: Json) -> SessionFile:
        home.write(b"".join(dumps(record) + b"\n" for record in records))
        (file,) = told(home)
        return file

    def said(self, words: object, **fields: object) -> Json:
        return {"type": "user", "message": {"role": "user", "content": words}, **fields}

    def command(self, name: str) -> str:
        return f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"

    def test_a_prompt_without_a_uuid_is_one(self, home: Home) -> None:
        file = self.only(home, self.said("hello"), self.said("again"))
        assert (file.first_prompt, file.title, file.title_kind) == ("hello", "hello", "prompt")

    def test_the_first_command_is_kept_and_is_no_prompt(self, home: Home) -> None:
        file = self.only(home, self.said(self.command("init")), self.said([{"type": "text", "text": self.command("clear")}]))
        assert (file.command, file.first_prompt, file.title) == ("/init", None, None)

    @pytest.mark.parametrize("flag", ["isMeta", "isSidechain", "isCompactSummary"])
    def test_a_command_of_a_machine_is_none(self, home: Home, flag: str) -> None:
        assert self.only(home, self.said(self.command("init"), **{flag: True})).command is None

    @pytest.mark.parametrize("content", [None, 7, [7, {"type": "text"}], "<command-name></command-name>", "<command-name> <"])
    def test_no_shape_is_a_command_that_is_none(self, home: Home, content: object) -> None:
        assert self.only(home, self.said(content)).command is None

    @pytest.mark.parametrize("cut", range(5))
    def test_the_first_command_is_the_same_in_two_imports_as_in_one(self, home: Home, cut: int) -> None:
        records = [{"type": "mode"}, *(self.said(self.command(name)) for name in ("init", "clear", "init"))]
        home.write(b"".join(dumps(record) + b"\n" for record in records[:cut]))
        home.sync()
        assert self.only(home, *records).command == "/init"

    @pytest.mark.parametrize("key", ["customTitle", "aiTitle"])
    def test_a_title_counts_in_whatever_line_about_the_session_it_stands(self, home: Home, key: str) -> None:
        file = self.only(home, self.said("hello"), {"type": "summary", key: "the title"}, {"type": "mode", "mode": "plan"})
        assert file.title == "the title"

    @pytest.mark.parametrize("value", [None, 7, ["x"]])
    def test_what_is_no_text_clears_no_title_in_such_a_line(self, home: Home, value: object) -> None:
        file = self.only(home, {"type": "custom-title", "customTitle": "kept"}, {"type": "mode", "customTitle": value})
        assert file.title == "kept"

    def test_a_branch_and_a_directory_count_in_whatever_line(self, home: Home) -> None:
        file = self.only(home, {"type": "mode", "cwd": "/a"}, self.said("x", gitBranch="old"), {"type": "x", "gitBranch": "new"})
        assert (file.cwd, file.git_branch) == ("/a", "new")

    def test_a_summary_that_names_no_message_is_kept_apart(self, home: Home) -> None:
        file = self.only(home, self.said("x"), {"type": "summary", "summary": "old"}, {"type": "summary", "summary": "new"})
        assert (file.summary, file.title) == ("new", "x")


class TestAgentFiles:
    def test_they_are_those_of_the_sessions_folder_by_their_place(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        for name in ("b", "a", "workflows/w/agent-c"):
            home.write(Log(first=50).turns(1).data, f"{SID}/subagents/{name if '/' in name else f'agent-{name}'}.jsonl")
        home.write(b"{}", f"{SID}/subagents/other.jsonl")
        home.write(Log(first=90).turns(1).data, "agent-old.jsonl")
        home.write(b'{"toolUseId":"toolu_1"}', f"{SID}/subagents/agent-b.meta.json")
        with Index.open(home.db) as index:
            found = index.agent_files(str(path.resolve()))
            folder = str(path.resolve()).removesuffix(".jsonl")
            places = [("a", "agent-a"), ("b", "agent-b"), ("c", "workflows/w/agent-c")]
            assert found == [AgentFile(agent, f"{folder}/subagents/{place}.jsonl") for agent, place in places]
            assert [index.agent_meta(agent.path) for agent in found] == [{}, {"toolUseId": "toolu_1"}, {}]


class TestTurns:
    def test_they_are_what_was_said(self, home: Home) -> None:
        log = Log()
        log.user("ask")
        log.user("caveat", isMeta=True)
        log.chain("attachment", attachment={"type": "x"})
        log.assistant([call("toolu_1")], id="msg_1")  # never answered, never sent again
        log.user("ask again")
        log.chain("system", subtype="informational")
        log.assistant("tell", id="msg_2")
        assert turns(home, home.write(log)) == [uuid(number) for number in (1, 4, 5, 7)]

    def test_of_a_sub_agent_meta_lines_are_some_too(self, home: Home) -> None:
        home.write(Log().turns(1))
        log = Log(first=50, common={"isSidechain": True})
        log.user("task", isMeta=True)
        log.assistant("done")
        assert turns(home, home.write(log.data, f"{SID}/subagents/agent-a1.jsonl")) == [uuid(50), uuid(51)]

    @given(st.integers(-9, 9) | st.none(), st.integers(-9, 9) | st.none())
    def test_a_part_is_that_of_the_whole(self, home: Home, start: int | None, stop: int | None) -> None:
        path = home.write(Log().turns(3))
        assert turns(home, path, slice(start, stop)) == [uuid(number) for number in range(1, 7)][start:stop]

    def test_the_chain_is_found_once_while_the_file_stands(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        found: list[int] = []
        find = current.find

        def counted(*given: Any) -> Way:
            found.append(1)
            return find(*given)

        monkeypatch.setattr(current, "find", counted)
        log = Log().turns(2)
        path = home.write(log)
        with Index.open(home.db) as index:
            for _ in range(3):
                assert len(list(index.turns(str(path.resolve())))) == 4
            assert len(found) == 1
            home.write(Log(session_id(2)).turns(1))
            index.sync([home.projects])  # of another file
            assert len(list(index.turns(str(path.resolve())))) == 4
            assert len(found) == 1
            path.write_bytes(log.turns(1).data)
            assert len(list(index.turns(str(path.resolve())))) == 6
            assert len(found) == 2
            path.write_bytes(Log(first=30).turns(3).data)
            assert [orjson.loads(line)["uuid"] for line in index.turns(str(path.resolve()))] == [uuid(at) for at in range(30, 36)]

    def test_a_last_line_that_is_not_whole_yet_is_read_again(self, home: Home) -> None:
        data = Log().turns(2).data
        path = home.write(data)
        with Index.open(home.db) as index:
            for size in range(len(data) - 200, len(data) + 1, 40):
                path.write_bytes(data[:size])
                list(index.turns(str(path.resolve())))
            path.write_bytes(data)
            assert len(list(index.turns(str(path.resolve())))) == 4

    def test_there_are_none_of_a_file_that_is_not_there(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        assert turns(home, path.with_name("absent.jsonl")) == []
        assert len(turns(home, path)) == 2
        path.unlink()
        assert turns(home, path) == []


class TestPatience:
    def test_a_question_waits_for_a_writer_as_long_as_it_was_told(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        home.write(Log().turns(2))
        for patience, stale in ((0.01, True), (60.0, False)):
            with Index.open(home.db, patience=patience) as index:
                other = sqlite3.connect(home.db, isolation_level=None)
                if stale:
                    other.execute("BEGIN IMMEDIATE")
                told = index.session_files([real(home)])
                assert (index.stale, len(told)) == (stale, 1)
                other.close()
