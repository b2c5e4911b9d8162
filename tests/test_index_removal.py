"""Forgetting: nothing of a session is left in any table or byte of the database, and nothing of another one is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.builders import (
    Home,
    Lab,
    Log,
    call,
    corpus,
    count,
    database_of,
    differing,
    result,
    rows,
    session_id,
    stopped_after,
    text,
    uuid,
)
from transcripts import Index, InvalidRequest, NotFound
from transcripts.files.discover import scan
from transcripts.index import fulltext, importer, prepare
from transcripts.index.removal import Named, remove
from transcripts.index.report import ImportReport
from transcripts.index.schema import metadata

SESSION, OTHER = session_id(1), session_id(2)
SECRET = "xylophonequartz"
FRAMES = """
    SELECT frame FROM chunks JOIN file_chunks ON file_chunks.chunk = chunks.id JOIN files ON files.id = file_chunks.file
    WHERE files.session_id = ?
"""


def secret_log() -> Log:
    """A session that holds a rare word in every column of the search index, and in titles and tags."""
    log = Log()
    log.user(f"ask {SECRET}")
    asked = call("t1", f"mcp__{SECRET}__run", command=SECRET)
    log.assistant([{"type": "thinking", "thinking": SECRET}, text(f"tell {SECRET}"), asked], id="m1")
    log.user([result("t1", f"output {SECRET}")])
    log.title(f"title {SECRET}")
    log.about("tag", tag=SECRET)
    log.summary(f"summary {SECRET}", leaf=uuid(1))
    log.raw(b'{"torn ' + SECRET.encode())
    return log


def words_anywhere(home: Home) -> list[str]:
    """The files of the database that hold the word, in any page."""
    return [path.name for path in home.db.parent.iterdir() if SECRET.encode() in path.read_bytes()]


def texts_of(index: Index) -> Iterator[tuple[str, Any]]:
    with database_of(index).read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                for value in row:
                    yield table.name, value


class TestForget:
    def test_no_byte_row_or_hit_is_left(self, home: Home) -> None:
        home.write(secret_log())
        home.write(f"big {SECRET}".encode(), f"{SESSION}/tool-results/a.txt")
        home.write(Log(first=50, common={"agentId": SECRET}).turns(1, SECRET).data, f"{SESSION}/subagents/agent-{SECRET}.jsonl")
        home.write(Log(OTHER, first=100).turns(5))
        home.sync()
        assert words_anywhere(home)
        with home.open() as index:
            assert rows(index, "SELECT count(*) FROM search WHERE search MATCH ?", SECRET)[0][0] > 3
            before = rows(index, "SELECT sum(kept_size), count(*) FROM files WHERE session_id = ?", SESSION)[0]
            frames = [row[0] for row in rows(index, FRAMES, SESSION)]
            assert any(frame in home.db.read_bytes() for frame in frames)
            gone = index.forget(SESSION)
            assert (gone.bytes, gone.files) == before
            assert rows(index, "SELECT count(*) FROM search WHERE search MATCH ?", SECRET) == [(0,)]
            assert [place for place, value in texts_of(index) if SECRET in str(value)] == []
            assert [name for name, value in texts_of(index) if value == SESSION] == ["forgotten"]
            assert words_anywhere(home) == []
            assert not any(frame in home.db.read_bytes() for frame in frames)
            assert index.damage() == []
            with pytest.raises(NotFound):
                index.session(SESSION)

    def test_it_does_not_come_back(self, home: Home) -> None:
        path = home.write(secret_log())
        home.write(Log(first=80).turns(1).data, "agent-old.jsonl")
        home.sync()
        with home.open(fresh=True) as index:
            index.forget(SESSION)
            path.write_bytes(path.read_bytes() + b'{"type":"mode"}\n')
            home.write(b"more", f"{SESSION}/tool-results/new.txt")
            index.sync()
            assert [info.id for info in index.sessions()] == []
            assert count(index, "files") == 0
            with pytest.raises(InvalidRequest, match="forgotten"):
                index.record(str(path), [{"type": "user", "message": {"role": "user", "content": "x"}}])
        assert path.exists()

    def test_it_does_not_come_back_with_a_project_that_is_renamed(self, home: Home) -> None:
        path = home.write(secret_log())
        home.write(b"big", f"{SESSION}/tool-results/a.txt")
        home.write(Log(first=80, common={"agentId": "a"}).turns(1).data, f"{SESSION}/subagents/agent-a")
        home.write(Log(first=90, common={"agentId": "o"}).turns(1).data, "agent-old")
        home.write(Log(OTHER, first=100).turns(1))
        home.write(Log("notes", first=200).turns(1))
        home.sync()
        with home.open(fresh=True) as index:
            index.forget(SESSION, "notes")
            moved = path.parent.rename(path.parent.with_name("-home-dev-store"))
            home.write(b"more", f"{SESSION}/tool-results/b.txt", key=moved.name)
            for _ in range(2):
                index.sync()
                assert {info.id: info.project_key for info in index.sessions()} == {OTHER: moved.name, "notes": moved.name}
                assert count(index, "files") == 2
            for name in (path.name, f"{SESSION}/tool-results/b.txt"):
                assert not index.sync([moved / name]).changed
            with pytest.raises(InvalidRequest, match="forgotten"):
                index.record(str(moved / path.name), [{"type": "user", "message": {"role": "user", "content": "x"}}])
            assert not index.sync().changed
        assert words_anywhere(home) == []

    def test_a_copy_in_another_project_stays_wherever_it_is_moved_to(self, home: Home) -> None:
        path = home.write(secret_log())
        copy = home.write(Log().turns(2), key="-copy")
        home.write(b"big", f"{SESSION}/tool-results/a.txt", key="-copy")
        home.sync()
        with home.open(fresh=True) as index:
            index.forget(str(path))
            home.write(Log().turns(3), key="-copy")
            home.write(b"more", f"{SESSION}/tool-results/b.txt", key="-copy")
            index.sync()
            assert count(index, "files") == 3
            copy.parent.rename(copy.parent.with_name("-moved"))
            path.parent.rename(path.parent.with_name("-renamed"))
            home.write(b"late", f"{SESSION}/tool-results/c.txt", key="-moved")
            index.sync()
            assert [(info.id, info.project_key, info.message_count) for info in index.sessions()] == [(SESSION, "-moved", 6)]
            assert rows(index, "SELECT DISTINCT project_key, state, count(*) FROM files") == [("-moved", "live", 4)]
            home.write(Log().turns(4), key="-moved")
            assert index.session(SESSION).message_count == 8

    def test_sub_agents_that_come_late_beside_the_transcripts_are_passed_over(self, home: Home) -> None:
        home.write(secret_log())
        home.sync()
        with home.open(fresh=True) as index:
            index.forget(SESSION)
            begun = home.write(b"", "agent-begun")
            index.sync()
            home.write(Log(first=80, common={"agentId": "late"}).turns(1, SECRET).data, "agent-late")
            home.write(Log(OTHER, first=100, common={"agentId": "other"}).turns(1).data, "agent-other")
            begun.write_bytes(Log(first=90, common={"agentId": "begun"}).turns(1, SECRET).data)
            report = index.sync()
            assert (report.new, report.entries) == (1, 2)
            assert rows(index, "SELECT agent_id FROM files") == [("other",)]
            assert not index.sync().changed
            assert index.damage() == []
        assert words_anywhere(home) == []

    def test_its_names_say_that_it_was_forgotten(self, home: Home) -> None:
        path = home.write(secret_log())
        agent = home.write(Log(first=80).turns(1).data, f"{SESSION}/subagents/agent-a")
        beside = home.write(Log(first=90).turns(1).data, "agent-old")
        home.sync()
        with home.open(fresh=True) as index:
            index.forget(SESSION)
            moved = path.parent.rename(path.parent.with_name("-moved"))
            for name in (path, agent, beside, moved / path.name, SESSION):
                with pytest.raises(NotFound, match="was forgotten"):
                    index.session(str(name))
            with pytest.raises(NotFound, match="never imported"):
                index.session(str(path.with_name(f"{OTHER}.jsonl")))

    def test_it_does_not_come_back_by_an_import_under_way(self, home: Home) -> None:
        path = home.write(secret_log())
        home.sync()
        found = scan(path).files[0]
        with home.open() as index:
            index.forget(SESSION)
            importer.import_file(database_of(index), "local", found, ImportReport(), lambda _size: None)
            assert count(index, "files") == 0

    def test_an_import_under_way_that_loses_its_file_ends(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        path = home.write(secret_log())
        home.write(Log(OTHER, first=100).turns(5))
        home.sync()
        path.write_bytes(path.read_bytes() + Log(first=40).turns(1).data)
        whole, forgetting = prepare.batches, [True]

        def batches(source: Any) -> Iterator[Any]:
            for some in whole(source):
                if forgetting:
                    forgetting.clear()
                    with home.open() as other:
                        other.forget(SESSION)
                yield some

        monkeypatch.setattr(importer, "batches", batches)
        home.sync()
        with home.open() as index:
            assert [info.id for info in index.sessions()] == [OTHER]
            assert index.damage() == []

    def test_what_others_share_stays_theirs(self, home: Home) -> None:
        log = Log().turns(1500)
        home.write(log)
        home.write(log.data + Log(first=5000).turns(1).data, OTHER)
        home.sync()
        with home.open() as index:
            shared = rows(
                index,
                "SELECT count(*) FROM file_chunks AS a JOIN file_chunks AS b ON a.chunk = b.chunk WHERE a.file < b.file",
            )[0][0]
            before = rows(index, "SELECT count(*), sum(output_tokens) FROM responses")
            assert shared > 0
            index.forget(SESSION)
            assert b"".join(line + b"\n" for line in index.lines(OTHER)) == home.path(OTHER).read_bytes()
            assert rows(index, "SELECT count(*), sum(output_tokens) FROM responses") == before
            assert index.damage() == []

    def test_a_title_from_its_summary_goes_too(self, home: Home) -> None:
        home.write(Log(OTHER, first=100).turns(1))
        log = Log().turns(1)
        log.summary(f"{SECRET} in brief", leaf=uuid(101))
        home.write(log)
        home.sync()
        with home.open() as index:
            assert index.session(OTHER).title == f"{SECRET} in brief"
            index.forget(SESSION)
            assert index.session(OTHER).title == "word 100 ask 0"
            assert words_anywhere(home) == []

    def test_all_versions_go(self, home: Home) -> None:
        home.write(secret_log())
        home.sync()
        home.write(Log(first=30).turns(2))
        home.sync()
        with home.open() as index:
            assert index.forget(SESSION).files == 2
            assert words_anywhere(home) == []

    def test_several_at_once_or_none(self, home: Home) -> None:
        for at in (1, 2, 3):
            home.write(Log(session_id(at), first=at * 10).turns(1))
        home.sync()
        with home.open() as index:
            with stopped_after(1):
                index.forget(SESSION, OTHER)
            assert [info.id for info in index.sessions()] == [session_id(3)]
            with pytest.raises(NotFound):
                index.forget(session_id(3), SESSION)
            assert [info.id for info in index.sessions()] == [session_id(3)]

    def test_a_reader_meanwhile_sees_all_or_nothing(self, home: Home) -> None:
        home.write(secret_log())
        home.sync()
        with home.open() as index, Index.open(home.db, fresh=False) as reading:
            with database_of(reading).read() as connection:
                before = connection.exec_driver_sql("SELECT count(*) FROM entries").scalar()
                forgetting = Thread(target=index.forget, args=(SESSION,))
                forgetting.start()
                while count(index, "files"):
                    pass
                assert connection.exec_driver_sql("SELECT count(*) FROM entries").scalar() == before
            forgetting.join()
            assert count(reading, "entries") == 0

    @settings(max_examples=6)
    @given(st.sets(st.integers(1, 4)), st.booleans())
    def test_what_is_left_is_what_an_import_of_the_rest_gives(self, lab: Lab, forgotten: set[int], indexed: bool) -> None:
        one, other = lab.home("one"), lab.home("other")
        for home in (one, other):
            corpus(home, 4, 3)
        for at in forgotten:
            home = other
            home.path(session_id(at), f"-home-dev-p{at % 2}").unlink()
            for path in home.projects.rglob(f"{session_id(at)}/**/*.*"):
                path.unlink()
        with one.open() as index:
            index.sync([one.projects], texts=indexed)
            index.forget(*map(session_id, sorted(forgotten)))
            index.sync()
        other.sync()
        assert differing(one.state(), other.state()) == []


class TestRemove:
    def test_without_a_tombstone_it_comes_back_with_its_file(self, home: Home) -> None:
        home.write(secret_log())
        home.sync()
        before = home.state()
        with home.open() as index:
            assert remove(database_of(index), Named("local", "-home-dev-shop", SESSION)).files == 1
            assert count(index, "entries") == 0
        home.sync()
        assert home.state() == before

    def test_what_is_not_there_is_nothing(self, home: Home) -> None:
        with home.open() as index:
            assert remove(database_of(index), Named("local", "x", "y")) == (0, 0)

    def test_words_are_merged_out_of_the_index(self, home: Home) -> None:
        home.write(secret_log())
        home.sync()
        with home.open() as index:
            database = database_of(index)
            remove(database, Named("local", "-home-dev-shop", SESSION))
            with database.write() as connection:
                fulltext.purge(connection)
                terms = "SELECT count(*) FROM search_data WHERE instr(block, ?)"
                assert connection.exec_driver_sql(terms, (SECRET.encode(),)).scalar() == 0


def test_the_log_is_emptied_too(home: Home) -> None:
    home.write(secret_log())
    home.sync()
    with home.open() as index:
        index.forget(SESSION)
        log = Path(f"{home.db}-wal")
        assert not log.exists() or log.stat().st_size == 0
