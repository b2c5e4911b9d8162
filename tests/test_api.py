"""The one handle: fresh by default, each question one moment, and plain words when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import transcripts
from tests.builders import Home, Log, call, database_of, result, session_id, uuid
from transcripts.api import Index
from transcripts.errors import (
    Ambiguous,
    ChunkDamaged,
    DatabaseBusy,
    DatabaseTooNew,
    DatabaseUnusable,
    FileExists,
    InvalidRequest,
    NotFound,
    Problem,
    QueryRefused,
    TranscriptsError,
)


class TestSurface:
    def test_all_names_are_there(self) -> None:
        for name in transcripts.__all__:
            assert getattr(transcripts, name) is not None
        assert set(transcripts.__all__) <= set(dir(transcripts))

    def test_what_is_not_there_is_told_like_anywhere(self) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = transcripts.nothing

    @pytest.mark.parametrize(
        "error",
        [
            NotFound,
            Ambiguous,
            InvalidRequest,
            FileExists,
            DatabaseBusy,
            DatabaseUnusable,
            DatabaseTooNew,
            ChunkDamaged,
            QueryRefused,
        ],
    )
    def test_all_that_is_raised_on_purpose_has_one_base(self, error: type[Exception]) -> None:
        assert issubclass(error, TranscriptsError)

    def test_a_problem_reads_as_place_and_reason(self) -> None:
        assert str(Problem("a.jsonl", "no valid JSON", 7, 3, "{x}")) == "a.jsonl:7: no valid JSON: {x}"
        assert str(Problem("a.jsonl", "cannot be read")) == "a.jsonl: cannot be read"

    def test_open_takes_the_defaults_of_the_environment(self, apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = Home(apart / ".claude", apart / "unused.db")
        home.write(Log().turns(1))
        with transcripts.open() as index:
            assert Path(index.path).is_relative_to(apart)
            assert [told.id for told in index.sessions()] == [session_id(1)]
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(apart / "other"))
        monkeypatch.setenv("TRANSCRIPTS_DB", str(apart / "named.db"))
        with transcripts.open() as index:
            assert (index.path, index.sessions(), index.roots()) == (str(apart / "named.db"), [], [])


class TestFresh:
    """Every question first brings its scope up to date."""

    @pytest.fixture
    def home(self, home: Home) -> Home:
        home.write(Log().turns(1))
        home.sync()
        home.write(Log().turns(2))
        home.write(Log(session_id(2), first=50).turns(1))
        return home

    def test_a_list_knows_what_came_and_grew_since(self, home: Home) -> None:
        with home.open(fresh=True) as index:
            assert {told.id: told.message_count for told in index.sessions()} == {session_id(1): 4, session_id(2): 2}

    def test_one_session_is_brought_up_to_date_and_no_other(self, home: Home) -> None:
        with home.open(fresh=True) as index:
            assert index.session(session_id(1)).message_count == 4
            index._fresh = False
            assert len(index.sessions()) == 1

    def test_a_session_that_is_not_known_is_looked_for(self, home: Home) -> None:
        with home.open(fresh=True) as index:
            assert index.session(session_id(2)).message_count == 2

    def test_a_sub_agent_that_came_since_is_counted(self, home: Home) -> None:
        home.write(Log(first=70).turns(1).data, f"{session_id(1)}/subagents/agent-x.jsonl")
        with home.open(fresh=True) as index:
            assert index.session(session_id(1)).agent_count == 1

    def test_resume_lines_problems_export_and_sql_are_fresh(self, home: Home, tmp_path: Path) -> None:
        log = Log().turns(2)
        for at in range(5):
            log.turns(1)
            home.write(log.data + b"{" * at)
            with home.open(fresh=True) as index:
                match at:
                    case 0:
                        assert len(index.resume(session_id(1)).entries) == log.count
                    case 1:
                        assert b"\n".join(index.lines(session_id(1))) == log.data + b"{"
                    case 2:
                        assert [problem.reason for problem in index.problems(session_id(1))] == ["unfinished line"]
                    case 3:
                        index.export(session_id(1), tmp_path / "out.jsonl")
                        assert (tmp_path / "out.jsonl").read_bytes() == log.data + b"{{{"
                    case 4:
                        assert index.sql("SELECT count(*) FROM messages").rows[0][0] == log.count + 2
                        assert index.verify()[0].reason == "unfinished line"

    def test_without_it_the_answer_is_what_was_there(self, home: Home) -> None:
        with home.open() as index:
            assert {told.id: told.message_count for told in index.sessions()} == {session_id(1): 2}
            assert index.session(session_id(1)).message_count == 2
            with pytest.raises(NotFound):
                index.session(session_id(2))
            assert not index.stale

    def test_a_session_that_vanished_meanwhile_answers_as_gone(self, home: Home) -> None:
        home.path(session_id(1)).unlink()
        with home.open(fresh=True) as index:
            assert (index.session(session_id(1)).state, len(index.resume(session_id(1)).entries)) == ("gone", 2)

    def test_a_session_that_moved_meanwhile_is_found_where_it_is(self, home: Home) -> None:
        home.write(home.path(session_id(1)).read_bytes(), session_id(1), key="-moved")
        home.path(session_id(1)).unlink()
        with home.open(fresh=True) as index:
            assert {told.id: told.project_key for told in index.sessions()}[session_id(1)] == "-moved"

    def test_a_session_that_was_rewritten_meanwhile_answers_with_its_new_text(self, home: Home) -> None:
        home.write(Log(first=500).turns(1))
        with home.open(fresh=True) as index:
            assert [entry.uuid for entry in index.resume(session_id(1)).entries] == [uuid(500), uuid(501)]

    def test_one_database_takes_several_machines(self, home: Home) -> None:
        with Index.open(home.db, fresh=False, source="desk") as desk, Index.open(home.db, fresh=False, source="lap") as lap:
            desk.sync([home.projects])
            lap.sync([home.projects])
            assert sorted((told.source, told.id) for told in lap.sessions()) == [
                ("desk", session_id(1)), ("desk", session_id(2)), ("lap", session_id(1)), ("lap", session_id(2)),
                ("local", session_id(1)),
            ]  # fmt: skip
            assert lap.roots() == desk.roots() == [str(home.projects.resolve())]


class TestQuestions:
    def test_a_plain_conversation_with_parallel_tools_resumes_whole(self, home: Home) -> None:
        """A asks, B calls three tools, C D E are its results, F follows E."""
        log = Log()
        a = log.user("A")
        b = log.assistant([call("t1"), call("t2"), call("t3")], id="msg")
        results = [log.user([result(f"t{at}")], parentUuid=b) for at in (1, 2, 3)]
        f = log.assistant("F")
        home.write(log)
        with home.open(fresh=True) as index:
            index.sync([home.projects])
            chain = index.resume(session_id(1))
            assert [entry.uuid for entry in chain.entries] == [a, b, *results, f]
            assert chain.leaf == f
            assert list(chain.lines()) == log.lines

    def test_a_sub_agents_transcript_is_no_session(self, home: Home) -> None:
        path = home.write(Log().turns(1).data, f"{session_id(1)}/subagents/agent-x.jsonl")
        home.sync()
        with home.open() as index, pytest.raises(InvalidRequest, match="sub-agent"):
            index.session(str(path))

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM files",
            "INSERT INTO meta VALUES ('a', 'b')",
            "DROP TABLE files",
            "CREATE TABLE t (a)",
            "ATTACH DATABASE '/tmp/x.db' AS x",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA writable_schema = 1",
            "VACUUM",
            "SELECT load_extension('x')",
            "INSERT INTO search (search) VALUES ('delete-all')",
            "SELECT 1; DELETE FROM files",
            "nonsense",
            "",
        ],
    )
    def test_sql_reads_only(self, home: Home, statement: str) -> None:
        home.write(Log().turns(1))
        home.sync()
        before = home.state()
        with home.open() as index:
            if statement:
                with pytest.raises(QueryRefused):
                    index.sql(statement)
            else:
                assert index.sql(statement).rows == []
        assert home.state() == before

    def test_sql_has_a_limit_of_time(self, home: Home) -> None:
        endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        with home.open() as index, pytest.raises(QueryRefused, match=r"took longer than 0\.1 s"):
            index.sql(endless, seconds=0.1)

    def test_sql_takes_values_by_place_and_by_name(self, home: Home) -> None:
        with home.open() as index:
            assert index.sql("SELECT ? + ? AS sum", (1, 2)).rows == [(3,)]
            assert index.sql("SELECT :a AS a", {"a": "x"}).columns == ("a",)

    def test_a_string_for_paths_is_one_path(self, home: Home) -> None:
        home.write(Log().turns(1))
        with home.open() as index:
            assert index.sync(str(home.projects)).new == 1

    def test_a_closed_handle_can_be_closed_again(self, home: Home) -> None:
        with home.open() as index:
            pass
        index.close()
        assert database_of(index).path == str(home.db)
