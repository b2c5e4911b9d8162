"""What all tests share: no test sees the user's own files, and a projects folder to write into."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import URL, Engine, create_engine, inspect

from tests.builders import Home, Lab
from transcripts.index import database, upgrade

settings.register_profile(
    "tests",
    derandomize=bool(os.environ.get("CI")),  # the same examples for the same code, so that CI says the same twice
    max_examples=60,
    deadline=None,  # no test fails for a slow machine
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    print_blob=True,
)
settings.load_profile("tests")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background: the programs that tests stop would not hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: neither the user's transcripts nor the user's database is ever touched."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("TRANSCRIPTS_DB", raising=False)
    return home


@pytest.fixture(autouse=True, scope="session")
def compiled_once() -> Iterator[None]:
    """All SQLite databases of a test run share their compiled statements: of a small import, compiling is most."""
    first: list[Engine] = []

    def sharing(url: URL, **options: Any) -> Engine:
        engine = create_engine(url, **options)
        if url.get_backend_name() == "sqlite":
            first.append(engine) if not first else None
            engine.dialect, engine._compiled_cache = first[0].dialect, first[0]._compiled_cache
        return engine

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "create_engine", sharing)
        yield


@pytest.fixture(autouse=True, scope="session")
def made_once() -> Iterator[None]:
    """The empty SQLite databases of a test run are copies of the first one: of a small test, migrations take most."""
    migrate = upgrade.upgrade
    first = sqlite3.connect(":memory:", check_same_thread=False)

    def made(engine: Engine, revision: str = "head") -> None:
        if engine.dialect.name != "sqlite" or revision != "head" or inspect(engine).get_table_names():
            migrate(engine, revision)
            return
        with closing(engine.raw_connection()) as connection:
            ours: Any = connection.driver_connection
            if not first.execute("SELECT name FROM sqlite_master").fetchall():
                migrate(engine)
                ours.backup(first)
            else:
                first.backup(ours)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(upgrade, "upgrade", made)
        yield
    first.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A client's folder, empty, and a database that is made when it is first opened."""
    return Home(tmp_path / "claude", tmp_path / "data" / "index.db")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Homes that each example of a property empties and uses again."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.close()


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a file or folder unreadable, also for a superuser, whom no mode keeps out."""

    def forbid(path: Path) -> None:
        for name in ("open", "scandir", "listdir"):
            monkeypatch.setattr(os, name, _refusing(getattr(os, name), str(path)))

    return forbid


def _refusing(call: Callable[..., Any], forbidden: str) -> Callable[..., Any]:
    def refusing(path: Any, *args: Any, **kwargs: Any) -> Any:
        if path == forbidden:
            raise PermissionError(13, "Permission denied", path)
        return call(path, *args, **kwargs)

    return refusing
