"""The texts of records, and the index that trails them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Home, Json, Log, call, count, database_of, differing, result, rows, session_id, text
from tests.soup import records
from transcripts.errors import DatabaseBusy
from transcripts.index import fulltext, prepare, scope
from transcripts.index.database import Database
from transcripts.index.scope import Place
from transcripts.index.text import SEARCHED_TYPES, TEXT_LIMIT, Passages, passages, texts

PLACE = Place("local", "-code-demo", session_id(1))


def user(content: object, **fields: object) -> Passages:
    return passages({"type": "user", "message": {"role": "user", "content": content}, **fields})


def assistant(*blocks: Json) -> Passages:
    return passages({"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}})


class TestTexts:
    def test_each_kind_of_content_has_its_column(self) -> None:
        assert user("why?") == {"prompt": "why?"}
        assert user([text("why?"), result("t", "a list")]) == {"prompt": "why?", "result": "a list"}
        assert user([result("t", [text("one"), {"type": "image", "source": {}}, text("two")])]) == {"result": "one\ntwo"}
        tool = call("t", "Bash", command="ls", deep=[{"a": "b"}])
        spoken = assistant({"type": "thinking", "thinking": "hm"}, text("so"), tool)
        assert spoken == {"reply": "so", "thinking": "hm", "tool": "Bash\nls\nb"}
        assert passages({"type": "system", "content": "Ran a hook"}) == {"result": "Ran a hook"}

    def test_titles_and_summaries_have_columns_of_their_own(self) -> None:
        assert passages({"type": "summary", "summary": "About"}) == {"summary": "About"}
        assert user("This session is continued ...", isCompactSummary=True) == {"summary": "This session is continued ..."}
        for kind, field in (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("agent-name", "agentName")):
            assert passages({"type": kind, field: "Heron"}) == {"title": "Heron"}

    def test_what_the_client_put_in_is_no_prompt(self) -> None:
        assert user("Caveat: ...", isMeta=True) == {"result": "Caveat: ..."}

    def test_a_prompt_typed_while_the_model_worked_is_a_prompt(self) -> None:
        queued = {"type": "queued_command", "prompt": "and the tests", "commandMode": "prompt"}
        assert passages({"type": "attachment", "attachment": queued}) == {"prompt": "and the tests"}
        assert passages({"type": "attachment", "attachment": queued | {"prompt": [text("a"), text("b")]}}) == {"prompt": "a\nb"}
        notice = queued | {"commandMode": "task-notification"}
        assert passages({"type": "attachment", "attachment": notice}) == {"result": "and the tests"}

    @pytest.mark.parametrize("kind", ["attachment", "progress", "file-history-snapshot", "api-request-blob", "queue-operation"])
    def test_machine_noise_has_none(self, kind: str) -> None:
        noise = {"type": kind, "message": {"content": "noise"}, "content": "noise", "attachment": {"content": "noise"}}
        assert passages(noise) == {}
        assert texts(orjson.dumps(noise), kind, PLACE) is None

    def test_the_echo_of_a_result_beside_it_is_not_searched(self) -> None:
        record = {"type": "user", "message": {"content": [result("t", "once")]}, "toolUseResult": {"stdout": "again"}}
        assert passages(record) == {"result": "once"}

    def test_base64_is_left_out_and_long_words_are_not(self) -> None:
        assert user("see " + "QUJD" * 300 + "== here") == {"prompt": "see   here"}
        assert user("see " + "QUJD" * 100) == {"prompt": "see " + "QUJD" * 100}

    def test_a_column_is_cut_at_its_limit(self) -> None:
        assert len(user("word " * TEXT_LIMIT)["prompt"]) == TEXT_LIMIT
        assert len(user([text("a" * 50_000), text("b " * 50_000)])["prompt"]) <= TEXT_LIMIT + 1

    def test_no_column_holds_what_no_database_takes(self) -> None:
        assert user("a\x00b\ud83dc") == {"prompt": "a\ufffdb\ufffdc"}

    @given(records(session_id(1)))
    def test_no_record_raises_and_the_same_record_gives_the_same_texts(self, record: Json) -> None:
        data, kind = json.dumps(record).encode(), str(record.get("type"))
        found = texts(data, kind, PLACE)
        assert found == texts(data, kind, PLACE)
        for column in found or ():
            assert column is None or column.encode()

    @given(
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
        )
    )
    def test_no_content_of_any_shape_raises(self, content: Any) -> None:
        shapes = ({"message": content}, {"message": {"content": content}}, dict.fromkeys(FIELDS, content))
        for record in shapes:
            for kind in SEARCHED_TYPES:
                texts(json.dumps({"type": kind, **record}).encode(), kind, PLACE)


class TestScope:
    def test_a_record_has_the_tokens_that_it_can_be_filtered_by(self) -> None:
        message = {"model": "claude-opus-5", "content": [call("t", "Bash", command="ls")]}
        record = {"type": "assistant", "message": message, "isSidechain": True, "gitBranch": "main"}
        assert scope.scope(record, PLACE).split() == [
            scope.project("local", "-code-demo"),
            scope.session(session_id(1)),
            scope.role("assistant"),
            scope.SIDECHAIN,
            scope.branch("main"),
            scope.model("claude-opus-5"),
            scope.tool("Bash"),
        ]

    def test_no_text_holds_a_token(self) -> None:
        """Whoever writes one into a transcript finds it in no filter."""
        token = scope.tool("Bash")
        found = texts(orjson.dumps({"type": "user", "message": {"content": f"see {token}"}}), "user", PLACE)
        assert found is not None and scope.MARK not in "".join(column or "" for column in found[:-1])


FIELDS = ("content", "summary", "attachment", "customTitle", "aiTitle", "agentName", "gitBranch")


def found(home: Home, words: str) -> list[str]:
    """The types of the records that match, in order."""
    query = "SELECT type FROM search JOIN entries e ON e.id = search.rowid WHERE search MATCH ? ORDER BY offset"
    with home.open() as index:
        return [kind for (kind,) in rows(index, query, words)]


class TestIndex:
    def test_what_was_imported_is_found_in_its_column(self, home: Home) -> None:
        log = Log()
        log.user("alpha question")
        log.assistant("alpha answer")
        log.summary("alpha talk", leaf="x")
        home.write(log)
        home.sync()
        assert found(home, "alpha") == ["user", "assistant", "summary"]
        assert found(home, "reply: alpha") == ["assistant"]
        assert found(home, "prompt: alpha") == ["user"]
        assert found(home, "summary: alpha") == ["summary"]

    def test_a_salvaged_record_is_found(self, home: Home) -> None:
        one, other = Log(), Log(first=50)
        one.user("first")
        other.user("second heron")
        home.write(one.lines[0] + other.lines[0] + b"\n" + one.lines[0][:50] + other.lines[0].replace(b"heron", b"kettle"))
        home.sync()
        assert found(home, "heron") == found(home, "kettle") == ["user"]

    def test_an_unfinished_record_is_found_once_before_and_after_it_is_finished(self, home: Home) -> None:
        data = Log().turns(1).data
        for end in (data[:-1], data, data + Log(first=50).turns(1).data):
            home.write(end)
            home.sync()
            assert found(home, "reply: word") == ["assistant"] * (end.count(b"tell"))

    @pytest.mark.parametrize("is_busy", [False, True])
    def test_what_merging_leaves_free_is_given_back(self, home: Home, monkeypatch: pytest.MonkeyPatch, is_busy: bool) -> None:
        def busy(_database: Database) -> None:
            raise DatabaseBusy("index.db", 1)

        monkeypatch.setattr(fulltext, "BATCH", 40)  # each batch is a part of the index, and parts are merged
        if is_busy:
            monkeypatch.setattr(Database, "shrink", busy)
        home.write(Log().turns(400))
        with home.open() as index:
            index.sync([home.projects])
            assert index.damage() == []
        with closing(sqlite3.connect(home.db)) as connection:
            assert (connection.execute("PRAGMA freelist_count").fetchone()[0] > 0) == is_busy
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def test_indexing_goes_on_where_it_stopped(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(50))
        monkeypatch.setattr(fulltext, "drain", lambda *_args, **_options: 0)
        home.sync()
        monkeypatch.undo()
        with home.open() as index:
            database = database_of(index)
            assert found(home, "word") == []
            assert fulltext.drain(database, limit=30) == 30
            with database.read() as connection:
                assert fulltext.pending(connection) == 70
            with database.write() as connection:
                assert fulltext.compare(connection) == []
            assert index.sync([home.projects]).indexed == 70
            assert len(found(home, "word")) == 100

    def test_texts_made_by_other_rules_are_indexed_again(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(2))
        home.sync()
        monkeypatch.setattr(fulltext, "TEXT_VERSION", 999)
        monkeypatch.setattr(prepare, "texts", lambda *_record: ("heron", *[None] * 6, "here"))
        with home.open() as index:
            assert index.sync([home.projects]).indexed == 4
            assert len(found(home, "heron")) == 4
            assert found(home, "word") == []
            assert index.sync([home.projects]).indexed == 0

    def test_a_key_is_never_given_out_again_while_the_index_knows_it(self, home: Home) -> None:
        """The record of a rewritten file that nothing else stands behind leaves the index with its own words."""
        for number in range(4):
            log = Log(first=number * 10 + 1)
            log.user(f"only {number} heron")
            home.write(log)
            home.sync()
        with home.open() as index:
            assert index.damage() == []
            assert count(index, "entries") == 4  # no later version has them
        assert [found(home, f"only AND {number}") for number in range(4)] == [["user"]] * 4

    def test_an_index_that_was_emptied_is_filled_again_by_the_next_sync(self, home: Home) -> None:
        home.write(Log().turns(3))
        home.sync()
        before = home.state()
        with home.open() as index:
            with database_of(index).write() as connection:
                fulltext.reset(connection)
            assert index.sync([home.projects]).indexed == 6
        assert differing(home.state(), before) == []

    def test_the_text_of_a_record_can_be_asked_for_in_sql(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT prompt, reply FROM search_source ORDER BY id") == [
                ("word 1 ask 0", None),
                (None, "word 2 tell 0"),
            ]
