"""What is remembered of a database holds until it is written to, by whomever."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert

from tests.builders import Home, Log, database_of, session_id
from transcripts.api import Index
from transcripts.errors import DatabaseBusy
from transcripts.index import fulltext, sync
from transcripts.index.database import Database
from transcripts.index.memory import Memory
from transcripts.index.schema import meta


class TestVersion:
    def test_it_changes_with_every_write_of_anyone(self, home: Home) -> None:
        with home.open() as index, Index.open(home.db) as other:
            database = database_of(index)
            seen = [database.version()]
            assert database.version() == seen[0]
            for number, writer in enumerate((database, database_of(other), database)):
                with writer.write() as connection:
                    connection.execute(insert(meta).values(key=f"test {number}", value=""))
                seen.append(database.version())
            foreign = sqlite3.connect(home.db)
            foreign.execute("DELETE FROM meta WHERE key LIKE 'test %'")
            foreign.commit()
            foreign.close()
            seen.append(database.version())
            assert len({*seen}) == len(seen) == 5

    def test_reading_changes_nothing(self, home: Home) -> None:
        with home.open() as index:
            before = database_of(index).version()
            index.sessions()
            assert database_of(index).version() == before


class TestMemory:
    def test_an_answer_holds_for_the_version_it_was_read_from(self) -> None:
        memory = Memory()
        memory.keep("a", 1, ["answer"])
        assert memory.recall("a", 1) == ["answer"]
        assert memory.recall("a", 2) is None
        assert memory.recall("b", 1) is None

    def test_nothing_is_kept_where_no_version_is_told(self) -> None:
        memory = Memory()
        memory.keep("a", None, "answer")
        assert memory.recall("a", None) is None

    def test_the_oldest_answers_are_let_go_of(self) -> None:
        memory = Memory()
        for number in range(1000):
            memory.keep(number, 1, "answer")
        assert memory.recall(999, 1) == "answer"
        assert memory.recall(0, 1) is None


class TestSettled:
    """A scan that had nothing to import costs no look at the rows while nothing was written."""

    @pytest.fixture
    def plans(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        made: list[int] = []
        plan = sync._plan

        def counted(*given: Any) -> Any:
            made.append(1)
            return plan(*given)

        monkeypatch.setattr(sync, "_plan", counted)
        return made

    def synced(self, database: Database, home: Home, memory: Memory) -> int:
        return len(sync.sync(database, "local", [home.projects], remember=False, texts=False, memory=memory).problems)

    def test_the_same_scan_again_is_settled(self, home: Home, plans: list[int]) -> None:
        home.write(Log().turns(2))
        home.write(b"torn\n", session_id(2))
        home.sync()
        plans.clear()
        memory = Memory()
        with home.open() as index:
            for _ in range(3):
                self.synced(database_of(index), home, memory)
            assert len(plans) == 1
            home.write(Log().turns(3))
            self.synced(database_of(index), home, memory)
            assert len(plans) == 2
            assert index.session(session_id(1)).message_count == 6

    def test_a_vanished_file_is_marked(self, home: Home, plans: list[int]) -> None:
        path = home.write(Log().turns(2))
        home.sync()
        memory = Memory()
        with home.open() as index:
            self.synced(database_of(index), home, memory)
            path.unlink()
            self.synced(database_of(index), home, memory)
            assert index.session(session_id(1)).state == "gone"

    def test_what_was_written_by_another_is_looked_at(self, home: Home, plans: list[int]) -> None:
        home.write(Log().turns(2))
        home.sync()
        memory = Memory()
        with home.open() as index, Index.open(home.db, fresh=False) as other:
            self.synced(database_of(index), home, memory)
            other.rebuild()
            before = len(plans)
            self.synced(database_of(index), home, memory)
            assert len(plans) == before + 1

    def test_a_sync_again_looks_at_no_rows(self, home: Home, plans: list[int]) -> None:
        home.write(Log().turns(2))
        with home.open() as index:
            for _ in range(4):
                index.sync([home.projects])
        assert len(plans) == 2  # it imports, and finds that nothing is left

    def test_texts_that_wait_are_indexed_though_nothing_is_to_be_imported(self, home: Home) -> None:
        home.write(Log().turns(2))
        with home.open() as index:
            assert [index.sync([home.projects], texts=False).indexed for _ in range(3)] == [0, 0, 0]
            assert [index.sync([home.projects]).indexed for _ in range(3)] == [4, 0, 0]

    def test_a_busy_database_leaves_the_texts_to_the_next_sync(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(2))
        with home.open() as index:
            index.sync([home.projects], texts=False)
            with monkeypatch.context() as patched:
                patched.setattr(fulltext, "drain", raising(DatabaseBusy("x.db", 1)))
                with pytest.raises(DatabaseBusy):
                    index.sync([home.projects])
            assert index.sync([home.projects]).indexed == 4

    def test_a_root_is_remembered_though_a_question_has_looked_there(self, home: Home) -> None:
        path = home.write(Log().turns(2))
        with Index.open(home.db) as index:
            for _ in range(3):
                assert len(index.session_files([str(path)])) == 1
            assert index.roots() == []
            index.sync([path])
            assert index.roots() == [str(path)]


def raising(error: Exception) -> Callable[..., None]:
    def raises(*_: object, **__: object) -> None:
        raise error

    return raises
