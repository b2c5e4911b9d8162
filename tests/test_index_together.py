"""Several writes in one transaction: what fails is undone alone, and what others see of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, func, select

from tests.builders import Home, Log, database_of, differing, session_id
from tests.test_index_postgresql import index, server, url  # noqa: F401  fixtures
from transcripts.api import Index
from transcripts.errors import DatabaseBusy, DatabaseUnusable
from transcripts.index import bulk, importer, report
from transcripts.index import database as database_module
from transcripts.index.database import Database
from transcripts.index.report import ImportReport
from transcripts.index.schema import files, meta
from transcripts.index.tombstones import Buried


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    with home.open() as opened:
        yield database_of(opened)


def put(connection: Connection, key: str) -> None:
    connection.execute(meta.insert().values(key=key, value="1"))


def keys(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.scalars(select(meta.c.key).where(meta.c.key.like("my-%"))))


def fail(database: Database, key: str) -> None:
    with pytest.raises(KeyError), database.write() as connection:
        put(connection, key)
        raise KeyError


def one_fails(database: Database) -> None:
    with database.together():
        with database.write() as connection:
            put(connection, "my-1")
        fail(database, "my-2")
        with pytest.raises(Exception, match=r"(?i)unique"), database.write() as connection:
            put(connection, "my-3")
            put(connection, "my-1")
        with database.write() as connection:
            put(connection, "my-4")
        assert keys(database) == {"my-1", "my-4"}
    assert keys(database) == {"my-1", "my-4"}


class TestTogether:
    def test_a_write_that_fails_is_undone_alone(self, database: Database) -> None:
        one_fails(database)

    def test_on_postgresql_too(self, index: Index) -> None:  # noqa: F811
        one_fails(database_of(index))

    def test_a_block_that_raises_is_undone_as_a_whole(self, database: Database) -> None:
        with pytest.raises(KeyError), database.together():
            with database.write() as connection:
                put(connection, "my-1")
            raise KeyError
        assert keys(database) == set()
        with database.write() as connection:
            put(connection, "my-2")
        assert keys(database) == {"my-2"}

    def test_within_another_it_is_a_write_of_that(self, database: Database) -> None:
        with database.together():
            with database.together():
                with database.write() as connection:
                    put(connection, "my-1")
                fail(database, "my-2")
            with pytest.raises(KeyError), database.together():
                with database.write() as connection:
                    put(connection, "my-3")
                raise KeyError
            with database.write() as connection:
                put(connection, "my-4")
        assert keys(database) == {"my-1", "my-4"}

    def test_another_thread_and_another_database_see_nothing_of_it(self, database: Database) -> None:
        other = Database(database.path)
        seen: list[set[str]] = []
        with database.together():
            with database.write() as connection:
                put(connection, "my-1")
            thread = Thread(target=lambda: seen.append(keys(database)))
            thread.start()
            thread.join()
            assert [*seen, keys(other)] == [set(), set()]
        assert keys(other) == {"my-1"}
        other.close()

    def test_others_wait_for_its_end(self, database: Database) -> None:
        other = Database(database.path)
        with database.together(), other.patience(0), pytest.raises(DatabaseBusy), other.write():
            pass
        with other.together(), database.patience(0), pytest.raises(DatabaseBusy), database.together():
            raise AssertionError("it began")
        other.close()

    def test_a_full_disk_undoes_all_of_it_and_says_so(self, database: Database) -> None:
        with pytest.raises(DatabaseUnusable, match="full"), database.together():
            with database.write() as connection:
                put(connection, "my-1")
                driver: Any = connection.connection.driver_connection
                (pages,) = driver.execute("PRAGMA page_count").fetchone()
                driver.execute(f"PRAGMA max_page_count = {pages + 2}")
            try:
                with database.write() as connection:
                    connection.execute(meta.insert().values(key="my-2", value="x" * 100_000))
            finally:
                driver.execute("PRAGMA max_page_count = 1000000")
        assert keys(database) == set()


class TestPortion:
    """Small files that share a transaction."""

    @pytest.fixture
    def transactions(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        together, files_of = Database.together, list[int]()

        @contextmanager
        def counted(self: Database) -> Iterator[None]:
            with together(self):
                with self.read() as connection:
                    before = connection.scalar(select(func.count()).select_from(files)) or 0
                yield
                with self.read() as connection:
                    files_of.append((connection.scalar(select(func.count()).select_from(files)) or 0) - before)

        monkeypatch.setattr(Database, "together", counted)
        return files_of

    @pytest.fixture
    def three(self, home: Home) -> list[Path]:
        return [home.write(Log(session_id(number), first=number * 1000).turns(3)) for number in (1, 2, 3)]

    def test_thousands_of_empty_files_hold_the_lock_for_some_at_a_time(self, home: Home, transactions: list[int]) -> None:
        for number in range(300):
            home.write(b"", session_id(number))
        assert home.sync().new == 300
        assert sum(transactions) == 300
        assert max(transactions) <= 128

    @pytest.mark.parametrize("moment", ["opened", "begun", "half"])
    def test_a_file_that_cannot_be_read_is_told_and_the_others_are_in(
        self,
        moment: str,
        home: Home,
        three: list[Path],
        transactions: list[int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        opened, read, reads = os.open, importer._pread, [0]

        def failing_open(path: Any, *args: Any, **options: Any) -> int:
            if path == str(three[1]):
                raise PermissionError(13, "Permission denied")
            return opened(path, *args, **options)

        def failing(descriptor: int, offset: int, length: int) -> bytes:
            if os.path.samestat(os.fstat(descriptor), three[1].stat()):
                reads[0] += 1
                if moment == "begun" or reads[0] > 1:
                    raise OSError(5, "Input/output error")
            return read(descriptor, offset, length)

        with monkeypatch.context() as patched:
            if moment == "opened":
                patched.setattr(os, "open", failing_open)
            else:
                patched.setattr(importer, "_pread", failing)
            told = home.sync()
        assert transactions
        assert [problem.path for problem in told.problems] == [str(three[1])]
        assert told.bytes == sum(path.stat().st_size for path in (three[0], three[2]))
        with home.open() as again:
            assert {session.id for session in again.sessions() if session.message_count} == {session_id(1), session_id(3)}
            assert all("not finished" in problem.reason for problem in again.damage())
        home.sync()
        other = Home(home.root, home.db.parent / "other" / "index.db")
        other.sync()
        assert differing(home.state(), other.state()) == []

    def test_a_session_that_is_forgotten_meanwhile_leaves_nothing_and_is_not_counted(
        self, home: Home, three: list[Path], transactions: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bring_up = importer._Import.run

        def run(self: Any, *args: Any) -> None:
            if self._row.path == str(three[1]):
                raise Buried
            bring_up(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(importer._Import, "run", run)
            told = home.sync()
        assert (told.new, told.problems) == (2, [])
        with home.open() as opened:
            assert {session.id for session in opened.sessions()} == {session_id(1), session_id(3)}
            assert opened.damage() == []
        assert home.sync() == ImportReport(scanned=3)

    @pytest.mark.parametrize("fresh", [False, True])
    def test_who_looks_while_files_are_imported_sees_them_and_changes_nothing(
        self, fresh: bool, home: Home, three: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = list[int]()
        with home.open(fresh) as opened, monkeypatch.context() as patched:
            patched.setattr(report.Meter, "__call__", lambda _meter, _size: seen.append(len(opened.sessions())))
            opened.sync([home.projects])
            assert seen[:3] == ([3, 3, 3] if fresh else [1, 2, 3])
            assert [session.id for session in opened.sessions()] == [session_id(1), session_id(2), session_id(3)]
            assert opened.damage() == []

    def test_what_a_stopped_portion_showed_is_not_remembered(
        self, home: Home, three: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with home.open() as opened:

            def look(_meter: object, _size: int) -> None:
                assert len(opened.sessions()) == 1
                raise KeyError

            with monkeypatch.context() as patched, pytest.raises(KeyError):
                patched.setattr(report.Meter, "__call__", look)
                opened.sync([home.projects])
            assert opened.sessions() == []


def test_statements_are_put_together_once_for_all_databases_of_a_kind(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each database that a program opens leaves its own behind."""
    monkeypatch.setattr(database_module, "create_engine", create_engine)
    home.write(Log().turns(3))
    home.sync()
    before = bulk._text.cache_info().currsize, bulk._insert.cache_info().currsize
    Home(home.root, home.db.parent / "other" / "index.db").sync()
    assert (bulk._text.cache_info().currsize, bulk._insert.cache_info().currsize) == before
