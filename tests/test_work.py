"""How much is done, counted and not timed: statements, rows, bytes read, files opened. More of it shows without a clock.

What is said to be flat is the same number whatever the size; a bound of another kind is what was counted when it was written,
with a little room. Whoever makes it less lowers the bound.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest
from sqlalchemy import event

from tests.builders import Home, Log, corpus, database_of, session_id
from transcripts import Index
from transcripts.index.versions import EDGE

_under: list[tuple[str, Counter[str]]] = []  # the folder that is watched, and its counter


def _heard(name: str, given: tuple[Any, ...]) -> None:
    if _under and name == "open" and isinstance(given[0], str) and given[0].startswith(_under[-1][0]):
        _under[-1][1]["opened"] += 1


sys.addaudithook(_heard)  # there is no taking it away again


@contextmanager
def counted(index: Index, home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """What is done within the block: `opened` files, `read` bytes of them, `statements` (each row of many is one)."""
    done: Counter[str] = Counter(opened=0, read=0, statements=0)
    pread = os.pread

    def reading(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        done["read"] += len(data)
        return data

    def trace(connection: Connection, *_: object) -> None:
        connection.set_trace_callback(lambda _sql: done.update(statements=1))

    engine = database_of(index).engine
    engine.dispose()  # so that connections are made, and traced
    event.listen(engine, "connect", trace)
    _under.append((f"{home.root}{os.sep}", done))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pread", reading)
            yield done
    finally:
        _under.pop()
        event.remove(engine, "connect", trace)
        engine.dispose()


def size_of(home: Home) -> tuple[int, int]:
    """How many files there are, and their bytes."""
    files = [path for path in home.root.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def rows_of(index: Index) -> int:
    """Rows in all tables but the search index's own."""
    with database_of(index).read() as connection:
        tables = connection.exec_driver_sql(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'"
        ).all()
        return sum(int(connection.exec_driver_sql(f'SELECT count(*) FROM "{name}"').scalar() or 0) for (name,) in tables)


@pytest.mark.parametrize("sessions", [2, 8])
def test_nothing_to_do_opens_no_file(home: Home, monkeypatch: pytest.MonkeyPatch, sessions: int) -> None:
    corpus(home, sessions, 4)
    home.sync()
    with home.open() as index, counted(index, home, monkeypatch) as done:
        index.sync()
    assert (done["opened"], done["read"]) == (0, 0)
    assert done["statements"] <= 12  # some of them set a connection up


def test_a_line_more_costs_the_same_whatever_there_is(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for sessions, turns in ((1, 10), (9, 10), (1, 400)):
        here = Home(tmp_path / f"{sessions}-{turns}", tmp_path / f"{sessions}-{turns}.db")
        logs = [Log(session_id(at), first=at * 10_000).turns(turns) for at in range(1, sessions + 1)]
        for log in logs:
            here.write(log)
        path = here.path(logs[0].session)
        with here.open() as index:
            index.sync([here.projects])
            line = Log(logs[0].session, first=90_001, start=5000, tip=logs[0].tip)
            line.user("one more")
            path.write_bytes(path.read_bytes() + line.data)
            with counted(index, here, monkeypatch) as done:
                index.sync([path])
            found.append(done)
            assert done["opened"] == 1
            assert done["read"] <= len(line.data) + 4 * EDGE
    assert found[0]["statements"] == found[1]["statements"] == found[2]["statements"] <= 80


def test_a_first_import_reads_each_byte_once_and_opens_each_file_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(home, 6, 60)
    files, size = size_of(home)
    with home.open() as index:
        before = rows_of(index)
        with counted(index, home, monkeypatch) as done:
            index.sync([home.projects], texts=False)
        rows = rows_of(index) - before
    assert done["opened"] == files
    assert size <= done["read"] <= size + files * 2 * EDGE
    assert done["statements"] <= rows + 36 * files


@pytest.mark.parametrize("sessions", [2, 20])
def test_a_list_is_a_few_statements_and_none_while_nothing_was_written(
    home: Home, monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    corpus(home, sessions, 2)
    home.sync()
    with home.open() as index:
        with counted(index, home, monkeypatch) as first:
            assert len(index.sessions()) == sessions
        with counted(index, home, monkeypatch) as again:
            index.sessions()
    assert first["statements"] <= 4
    assert again["statements"] == 0


def test_the_end_of_a_chain_costs_the_same_at_any_length(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number, turns in ((1, 50), (2, 1000)):
        home.write(Log(session_id(number), first=number * 10_000).turns(turns))
        home.sync()
        with home.open() as index, counted(index, home, monkeypatch) as done:
            chain = index.resume(session_id(number), last=20)
            assert len(chain.entries) == 20
        found.append((done["statements"], done["opened"]))
    assert found[0] == found[1]
