"""The connection: one SQLite file (or a PostgreSQL database), made, upgraded, read and written under one lock.

Invariants:
- A SQLite database and all that belongs to it is readable by its owner alone, from the first byte on.
- One writer at a time: every write transaction first takes the lock file beside the database (on PostgreSQL: a lock in it).
  It is waited for; when the wait is over DatabaseBusy is raised and nothing has been written. Readers are never blocked.
- A database of an older release is upgraded when it is opened, one of a newer release is refused and left untouched.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError

from transcripts.errors import DatabaseBusy, DatabaseTooNew, DatabaseUnusable
from transcripts.files.private import make_folders

if TYPE_CHECKING:
    from filelock import FileLock

REVISION = "0005"
"""The newest migration that this release knows."""

APPLICATION_ID = 0x7472_6E73  # "trns": lets `file` and others tell our databases from those of other programs
LOCK_TIMEOUT = 60.0  # seconds
_patience: ContextVar[float] = ContextVar("patience")
_held: ContextVar[tuple[Database, Connection] | None] = ContextVar("held", default=None)  # see Database.together
_LOCK_NOT_AVAILABLE = "55P03"  # what PostgreSQL says when a lock was waited for in vain
_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "temp_store = MEMORY",
    "cache_size = -32768",
    "wal_autocheckpoint = 4000",  # 16 MB: a checkpoint waits for the disk, and of small writes each third would make one
)
_BUSY_TIMEOUT = 10_000  # milliseconds that SQLite itself waits, for writers that do not know our lock file

SearchText = Callable[[int, int], str | None]
"""The SQL function search_text(entry, column): the searchable text of an entry."""


class Database:
    """An open database.

    `lock_timeout` is how many seconds a writer waits for another one.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = _url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.path = self.url.database or "" if self.is_sqlite else self.url.render_as_string(hide_password=True)
        self.lock_timeout = LOCK_TIMEOUT
        self._observer: sqlite3.Connection | None = None
        self._observing = Lock()
        self._locking = Lock()
        if self.is_sqlite:
            _refuse_foreign(self.path)
            _make_private(self.path)
        try:
            self.engine = self._engine()
        except (ArgumentError, ImportError) as error:
            raise DatabaseUnusable(f"no database can be reached by {self.path} ({error})") from None
        self._lock: FileLock | None = None
        try:
            self._upgrade()
        except (DatabaseError, sqlite3.DatabaseError) as error:
            self.close()
            raise DatabaseUnusable(f"{self.path} cannot be used as a database ({_cause(error)})") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        with (
            self._observing
        ):  # first: the last connection empties SQLite's log into the database, which one that only looks cannot
            if self._observer is not None:
                self._observer.close()
                self._observer = None
        self.engine.dispose()

    def version(self) -> int | None:
        """A number that is another one once anything was written to the database, by whomever; None where none is told, as
        within `together`, where more is seen than has been written.

        Cost: microseconds. SQLite tells a connection what others did, so it is one that only looks.
        """
        if not self.is_sqlite or self._together() is not None:
            return None
        with self._observing:
            if self._observer is None:
                where = f"file:{quote(self.path)}?mode=ro"
                self._observer = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            return int(self._observer.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """Within this block (and this thread) writers wait only so many seconds for others."""
        token = _patience.set(seconds)
        try:
            yield
        finally:
            _patience.reset(token)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in one read transaction: all its queries see the same moment."""
        if (held := self._together()) is not None:
            yield held
            return
        with self.engine.connect() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            try:
                yield connection
            except (OperationalError, sqlite3.OperationalError) as error:
                raise self._translated(error) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection in one write transaction, committed at the end; rolled back when the block raises.

        Waits at most `patience` seconds (without it: `lock_timeout`) for other writers, then raises DatabaseBusy.
        """
        if (held := self._together()) is not None:
            cursor = held.connection.cursor()
            cursor.execute("SAVEPOINT one")
            try:
                yield held
            except BaseException:
                with suppress(Exception):  # where SQLite has undone all by itself, as on a full disk
                    cursor.execute("ROLLBACK TO SAVEPOINT one")
                raise
            cursor.execute("RELEASE SAVEPOINT one")
            return
        patience = _patience.get(self.lock_timeout)
        with self._locked(patience), self.engine.connect().execution_options(immediate=True) as connection:
            if self.is_sqlite:  # a writer that does not know our lock file is waited for no longer
                waits = min(_BUSY_TIMEOUT, int(patience * 1000))
                connection.connection.cursor().execute(f"PRAGMA busy_timeout = {waits}")
            try:
                with connection.begin():
                    if not self.is_sqlite:
                        take_turn(connection, patience)
                    yield connection
            except (OperationalError, sqlite3.OperationalError) as error:
                raise self._translated(error, patience) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within this block (and this thread) all is one write transaction: a `write` that raises is undone alone, a `read` sees
        what was written. For many small writes, of which each would else cost a lock and a commit."""
        with self.write() as connection:
            token = _held.set((self, connection))
            try:
                yield
            finally:
                _held.reset(token)

    def _together(self) -> Connection | None:
        held = _held.get()
        return held[1] if held is not None and held[0] is self else None

    def compact(self) -> None:
        """Write a SQLite database anew, so that nothing of what was removed is left in free pages or in its log.

        Takes its size again on the disk meanwhile. Raises DatabaseBusy and DatabaseUnusable; then it is as it was.
        """
        if not self.is_sqlite:
            return
        with self._locked(_patience.get(self.lock_timeout)), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection  # VACUUM runs in no transaction
            try:
                driver.execute("PRAGMA temp_store = FILE")  # the whole database is written there
                driver.execute("VACUUM")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                raise self._translated(error) from error
            finally:
                driver.execute("PRAGMA temp_store = MEMORY")

    def shrink(self) -> None:
        """Give the free pages of a SQLite database back: merging the search index leaves 2 of 100.

        A database that was made before revision 0005 keeps them, for use. Raises DatabaseBusy. Cost: as many pages are moved.
        """
        if not self.is_sqlite:
            return
        with self._locked(_patience.get(self.lock_timeout)), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            try:
                driver.executescript("PRAGMA incremental_vacuum")  # `execute` would move one page
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)")  # by which the file gets shorter
            except sqlite3.OperationalError as error:
                raise self._translated(error) from error

    @contextmanager
    def _locked(self, timeout: float) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        from filelock import FileLock, Timeout  # which a reader need not load

        with self._locking:
            self._lock = self._lock or FileLock(self.path + ".lock", mode=0o600)
        try:
            self._lock.acquire(timeout=timeout, poll_interval=0.01)
        except Timeout:
            raise DatabaseBusy(self.path, timeout) from None
        try:
            yield
        finally:
            self._lock.release()

    def _translated(
        self, error: OperationalError | sqlite3.OperationalError, patience: float = _BUSY_TIMEOUT / 1000
    ) -> Exception:
        cause = error.orig if isinstance(error, OperationalError) else error
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return DatabaseBusy(self.path, min(patience, _BUSY_TIMEOUT / 1000))
        if getattr(cause, "sqlstate", "") == _LOCK_NOT_AVAILABLE:
            return DatabaseBusy(self.path, patience)
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            return DatabaseUnusable(f"{self.path} cannot be written or read ({cause})")
        return error

    # -- opening ------------------------------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        if not self.is_sqlite:
            return create_engine(self.url)
        engine = create_engine(self.url, connect_args={"timeout": _BUSY_TIMEOUT / 1000, "check_same_thread": False})

        @event.listens_for(engine, "connect")
        def _connect(connection: sqlite3.Connection, record: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say so
            bound: list[SearchText] = []  # what stands behind the SQL function: see fulltext.bound_texts
            record.info["search_text"] = bound
            connection.create_function("search_text", 2, lambda *args: bound[-1](*args) if bound else None)
            if not connection.execute("PRAGMA page_count").fetchone()[0]:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only before anything is written; see `shrink`
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            immediate = connection.get_execution_options().get("immediate")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

        return engine

    def _upgrade(self) -> None:
        if self._revision() == REVISION:
            return
        with self._locked(self.lock_timeout):
            found = self._revision()
            if found == REVISION:
                return
            if self._is_foreign():
                raise DatabaseUnusable(f"{self.path} is a database of another program; name another one with --db")
            from transcripts.index.upgrade import revisions, upgrade  # Alembic: only where it is needed

            if found is not None and found not in revisions():
                raise DatabaseTooNew(self.path, found)
            upgrade(self.engine)
            if self.is_sqlite:
                with self.engine.connect() as connection:
                    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.commit()

    def _revision(self) -> str | None:
        with self.engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()

    def _is_foreign(self) -> bool:
        with self.engine.connect() as connection:
            return _are_foreign(inspect(connection).get_table_names())


def take_turn(connection: Connection, seconds: float) -> None:
    """On PostgreSQL: wait for other writers until the transaction ends, as the lock file does beside a SQLite database."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, int(seconds * 1000))}")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")


def _url(url: str | os.PathLike[str]) -> URL:
    text = os.fspath(url)
    if "://" in text:
        try:
            parsed = make_url(text)
            parsed.get_dialect()
        except (ArgumentError, ImportError) as error:
            raise DatabaseUnusable(f"{text!r} names no database ({error}); give a path, or a URL as SQLAlchemy has it") from None
        return parsed
    return URL.create("sqlite", database=os.path.abspath(os.path.expanduser(text)))


def _refuse_foreign(path: str) -> None:
    """Refuse another program's database before anything of it is changed, be it its mode or its journal."""
    try:
        if not os.path.getsize(path):
            return
        connection = sqlite3.connect(f"file:{quote(path)}?immutable=1", uri=True)  # makes no log beside it
    except (OSError, sqlite3.Error):
        return  # not there yet, or not to be read: opening it says why
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise DatabaseUnusable(f"{path} cannot be used as a database ({error})") from None
        return
    finally:
        connection.close()
    if _are_foreign(names):
        raise DatabaseUnusable(f"{path} is a database of another program; name another one with --db")


def _are_foreign(tables: list[str]) -> bool:
    return bool(tables) and not {"alembic_version", "file_chunks"} <= {*tables}


def _make_private(path: str) -> None:
    """Create the database's folder and file closed to others; the files SQLite puts beside it take its mode."""
    try:
        make_folders(os.path.dirname(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DatabaseUnusable(f"{path} cannot be opened ({error.strerror}); name another one with --db") from None


def _cause(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error)
