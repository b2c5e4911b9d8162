"""The database file: closed to others, one writer at a time, and nobody else's is touched."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.builders import Home, Log, database_of, session_id
from transcripts.api import Index
from transcripts.errors import DatabaseBusy, DatabaseUnusable
from transcripts.index.database import APPLICATION_ID, REVISION, Database


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.fixture
def umask() -> Iterator[None]:
    """What most people have: others may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
class TestPrivate:
    def test_database_log_lock_and_folder_are_closed_to_others_while_it_is_open(self, home: Home) -> None:
        home.write(Log().turns(1))
        with Index.open(home.db, fresh=False) as index:
            index.sync([home.projects])
            assert modes(home.db.parent) == dict.fromkeys(("index.db", "index.db-wal", "index.db-shm", "index.db.lock"), 0o600)
            assert stat.S_IMODE(home.db.parent.stat().st_mode) == 0o700
        assert set(modes(home.db.parent).values()) == {0o600}

    def test_a_database_that_others_could_read_is_closed_to_them(self, home: Home) -> None:
        with home.open():
            home.db.chmod(0o644)
        with home.open():
            assert set(modes(home.db.parent).values()) == {0o600}

    def test_a_folder_that_is_there_keeps_its_mode(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        Index.open(tmp_path / "index.db").close()
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


class TestNobodyElses:
    @pytest.fixture
    def foreign(self, home: Home) -> Path:
        """Another program's database, in the journal mode that SQLite begins with."""
        home.db.parent.mkdir()
        with sqlite3.connect(home.db) as connection:
            connection.execute("CREATE TABLE bookmarks (address TEXT)")
        connection.close()
        home.db.chmod(0o644)
        return home.db

    @pytest.mark.parametrize("journal", ["DELETE", "WAL"])
    def test_another_programs_database_is_refused_and_not_changed_in_any_way(self, foreign: Path, journal: str) -> None:
        connection = sqlite3.connect(foreign)
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.close()
        data, mode = foreign.read_bytes(), foreign.stat().st_mode
        with pytest.raises(DatabaseUnusable, match="is a database of another program; name another one with --db"):
            Index.open(foreign)
        assert (foreign.read_bytes(), foreign.stat().st_mode) == (data, mode)
        assert [path.name for path in foreign.parent.iterdir()] == [foreign.name]

    @pytest.mark.parametrize("revision", [REVISION, "0000", "abcdef123456"])
    def test_another_programs_database_that_alembic_made_is_not_taken_for_ours(self, foreign: Path, revision: str) -> None:
        with sqlite3.connect(foreign) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
            connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
        connection.close()
        data = foreign.read_bytes()
        with pytest.raises(DatabaseUnusable, match="another program"):
            Index.open(foreign)
        assert foreign.read_bytes() == data

    def test_a_file_that_is_no_database_is_refused_and_not_changed(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("dear diary " * 100)
        mode = path.stat().st_mode
        with pytest.raises(DatabaseUnusable, match="cannot be used as a database"):
            Index.open(path)
        assert (path.read_text(), path.stat().st_mode) == ("dear diary " * 100, mode)

    def test_an_empty_file_becomes_a_database(self, tmp_path: Path) -> None:
        (tmp_path / "index.db").touch()
        with Index.open(tmp_path / "index.db") as index:
            assert index.sessions() == []

    @pytest.mark.parametrize("place", ["folder", "below/a/file.txt/index.db"])
    def test_a_place_where_no_database_can_be_is_told(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "below" / "a").mkdir(parents=True)
        (tmp_path / "below" / "a" / "file.txt").touch()
        with pytest.raises(DatabaseUnusable, match="cannot be opened"):
            Index.open(tmp_path / place)

    def test_our_databases_are_marked_as_ours(self, home: Home) -> None:
        Index.open(home.db).close()
        connection = sqlite3.connect(home.db)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        connection.close()

    def test_a_damaged_database_is_told_as_one(self, home: Home) -> None:
        home.write(Log().turns(200))
        home.sync()
        data = bytearray(home.db.read_bytes())
        data[4096 * 3 : -4096] = b"\xa5" * (len(data) - 4096 * 4)
        home.db.write_bytes(data)
        with pytest.raises(DatabaseUnusable, match="malformed"), home.open(fresh=True) as index:
            index.sessions()


class TestMaking:
    def test_a_database_is_made_with_its_folders(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "index.db"
        with Index.open(path) as index:
            assert index.path == str(path)
            assert index.sessions() == []

    def test_a_path_with_any_characters_is_a_path(self, tmp_path: Path) -> None:
        for name in ("with space", "100%", "a?b#c", "größe", "sqlite:x", "colon:9"):
            with Index.open(tmp_path / name) as index:
                assert index.sql("SELECT count(*) FROM files").rows == [(0,)]
            assert (tmp_path / name).stat().st_size > 0

    def test_several_that_make_one_database_at_once_make_one(self, home: Home) -> None:
        program = "import sys\nfrom transcripts.api import Index\nIndex.open(sys.argv[1]).close()\n"
        makers = [subprocess.Popen([sys.executable, "-c", program, str(home.db)]) for _ in range(4)]
        assert [maker.wait() for maker in makers] == [0] * 4
        with home.open() as index:
            assert index.damage() == []

    def test_one_that_was_killed_while_it_was_made_is_made_by_the_next(self, home: Home) -> None:
        home.db.parent.mkdir()
        context = multiprocessing.get_context("spawn")
        for seconds in (0.7, 0.8, 0.9, 1.0):
            maker = context.Process(target=_make, args=(str(home.db),))
            maker.start()
            maker.join(seconds)
            maker.kill()
            maker.join()
        with Index.open(home.db) as index:
            assert index.sessions() == []


def _make(path: str) -> None:
    Index.open(path).close()


class TestOneWriter:
    def test_a_second_writer_waits_and_then_says_so(self, home: Home) -> None:
        with home.open() as one, home.open() as other:
            database_of(other).lock_timeout = 0.05
            busy = pytest.raises(DatabaseBusy, match="try again in a moment")
            with database_of(one).write(), busy, database_of(other).write():
                pass
            with database_of(other).write():
                pass

    def test_a_writer_that_raises_writes_nothing_and_lets_go(self, home: Home) -> None:
        with home.open() as index:
            with pytest.raises(ZeroDivisionError), database_of(index).write() as connection:
                connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
                raise ZeroDivisionError
            with database_of(index).write() as connection:
                assert connection.exec_driver_sql("SELECT count(*) FROM meta WHERE key = 'a'").scalar() == 0

    def test_patience_is_for_its_block_only(self, home: Home) -> None:
        with home.open() as one, home.open() as other:
            database_of(other).lock_timeout = 0.3
            with database_of(one).write():
                busy = pytest.raises(DatabaseBusy, match=r"waited 0\.01 s")
                with busy, database_of(other).patience(0.01), database_of(other).write():
                    pass
                with pytest.raises(DatabaseBusy, match=r"waited 0\.3 s"), database_of(other).write():
                    pass

    def test_a_reader_is_not_blocked_and_sees_what_was_committed(self, home: Home) -> None:
        with home.open() as one, home.open() as other:
            with database_of(one).write() as connection:
                connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
                assert other.sql("SELECT count(*) FROM meta WHERE key = 'a'").rows == [(0,)]
            assert other.sql("SELECT count(*) FROM meta WHERE key = 'a'").rows == [(1,)]

    def test_all_queries_of_a_reader_see_one_moment(self, home: Home) -> None:
        with home.open() as one, home.open() as other, database_of(other).read() as reading:
            told = [reading.exec_driver_sql("SELECT count(*) FROM meta").scalar()]
            with database_of(one).write() as connection:
                connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
            told.append(reading.exec_driver_sql("SELECT count(*) FROM meta").scalar())
            assert told[0] == told[1]

    def test_a_full_disk_is_told_and_nothing_is_half_written(self, home: Home) -> None:
        home.write(Log().turns(500))
        with home.open() as index:
            with database_of(index).engine.connect() as connection:
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            _limit_pages(database_of(index), int(pages or 0) + 4)
            with pytest.raises(DatabaseUnusable, match="cannot be written or read"):
                index.sync([home.projects])
        home.sync()
        with home.open() as index:
            assert index.session(session_id(1)).message_count == 1000
            assert index.damage() == []

    def test_a_database_that_is_copied_while_it_is_closed_is_the_same(self, home: Home, tmp_path: Path) -> None:
        home.write(Log().turns(1))
        with home.open() as index:
            index.sync([home.projects])
            index.sessions()
        shutil.copy(home.db, tmp_path / "copy.db")
        with Index.open(tmp_path / "copy.db", fresh=False) as index:
            assert index.session(session_id(1)).message_count == 2


def _limit_pages(database: Database, pages: int) -> None:
    database.engine.dispose()

    @event.listens_for(database.engine, "connect")
    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")
