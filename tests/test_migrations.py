"""Every released database upgrades, and the newest revision is what the code expects."""

from __future__ import annotations

import shutil
import sqlite3
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.builders import Home, Log, database_of, session_id
from transcripts.api import Index
from transcripts.errors import DatabaseTooNew
from transcripts.index import schema
from transcripts.index.content import content, differences, totals
from transcripts.index.database import REVISION
from transcripts.index.upgrade import revisions
from transcripts.index.views import VIEWS
from transcripts.sessions import catalog

FROZEN = Path(__file__).parent / "databases"
SAMPLE = Path(__file__).parent.parent / "transcripts" / "sample"
FTS5 = ("data", "idx", "docsize", "config")  # what SQLite makes for the search index
HOME = "/home/dev/.claude"  # where the frozen databases say that the sample lies


def schema_of(path: Path) -> list[tuple[str, str, str]]:
    """What SQLite says a database is made of."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name").fetchall()
    connection.close()
    return found


def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Not the tables that SQLite makes for a search index, nor Alembic's own."""
    return kind != "table" or name not in {"alembic_version", "search", *(f"search_{part}" for part in FTS5)}


class TestHead:
    def test_the_code_expects_the_newest_revision(self) -> None:
        assert revisions()[0] == REVISION

    def test_revisions_are_a_line_of_numbers(self) -> None:
        assert revisions() == [f"{number:04}" for number in range(len(revisions()), 0, -1)]

    def test_the_migrations_make_the_tables_that_the_code_expects(self, home: Home) -> None:
        with Index.open(home.db) as index, database_of(index).engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_name": is_ours, "compare_type": True})
            assert compare_metadata(context, schema.metadata) == []

    def test_the_migrations_make_the_search_tables_that_the_code_expects(self, home: Home) -> None:
        with Index.open(home.db):
            pass
        made = {name: " ".join(sql.split()) for _kind, name, sql in schema_of(home.db)}
        for statement in schema.SEARCH_SQL[:2]:
            assert " ".join(statement.split()) in made.values()

    def test_the_views_are_those_that_the_code_expects(self, home: Home) -> None:
        with Index.open(home.db):
            pass
        made = {name: sql for kind, name, sql in schema_of(home.db) if kind == "view" and name != "search_source"}
        assert made == {name: f"CREATE VIEW {name} AS\n    -- {about}{sql}" for name, (about, sql) in VIEWS.items()}

    def test_who_changes_a_view_raises_the_revision(self, home: Home) -> None:
        with Index.open(home.db):
            pass
        views = [[row for row in schema_of(path) if row[0] == "view"] for path in (home.db, FROZEN / f"{REVISION}.db")]
        assert views[0] == views[1]

    def test_every_revision_has_a_frozen_database(self) -> None:
        assert sorted(path.stem for path in FROZEN.glob("*.db")) == sorted(revisions())


class TestUpgrade:
    @pytest.fixture(params=sorted(FROZEN.glob("*.db")), ids=lambda path: path.stem)
    def frozen(self, request: pytest.FixtureRequest, home: Home) -> Path:
        home.db.parent.mkdir()
        shutil.copyfile(request.param, home.db)
        return home.db

    def test_it_becomes_like_a_new_one(self, frozen: Path, tmp_path: Path) -> None:
        Index.open(frozen).close()
        Index.open(tmp_path / "new.db").close()
        assert schema_of(frozen) == schema_of(tmp_path / "new.db")

    def test_it_says_what_an_import_by_this_release_says(self, frozen: Path, tmp_path: Path) -> None:
        with Index.open(frozen, fresh=False) as index, Index.open(tmp_path / "new.db", fresh=False) as anew:
            index.sync()
            anew.sync([SAMPLE])
            with database_of(index).read() as one, database_of(anew).read() as other:
                assert len(catalog.listed(one)) == len(catalog.listed(other)) == 4
                files = "SELECT name, id FROM files"  # imported oldest first: a clone gives other times, so other keys
                keys = {row.name: row.id for row in other.exec_driver_sql(files)}
                for name, file in one.exec_driver_sql(files).all():
                    assert differences(content(one, file), content(other, keys.pop(name))) == []
                assert not keys
                assert totals(one)["responses"].keys() == totals(other)["responses"].keys()
            assert index.verify() == []

    def test_its_files_come_out_byte_for_byte(self, frozen: Path) -> None:
        with Index.open(frozen, fresh=False) as index:
            for path in SAMPLE.rglob("*.jsonl"):
                out = BytesIO()
                index.export(f"{HOME}/{path.relative_to(SAMPLE)}", out)
                assert out.getvalue() == path.read_bytes()

    def test_it_takes_new_files(self, frozen: Path, home: Home) -> None:
        home.write(Log().turns(1))
        with Index.open(frozen, fresh=False) as index:
            index.sync()  # what an older release derived is derived anew
            index.sync([home.projects])
            assert index.session(session_id(1)).message_count == 2
            assert index.damage() == []

    def test_nothing_of_a_machine_is_in_it(self, frozen: Path) -> None:
        with Index.open(frozen, fresh=False) as index:
            paths = [path for (path,) in index.sql("SELECT path FROM files UNION SELECT path FROM roots").rows]
        assert all(path.startswith(f"{HOME}/projects") for path in paths)


class TestNewer:
    def test_a_newer_releases_database_is_refused_with_what_to_do_and_not_changed(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        with sqlite3.connect(home.db) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
            connection.execute("CREATE TABLE of_tomorrow (id INTEGER)")
        connection.close()
        data = home.db.read_bytes()
        with pytest.raises(DatabaseTooNew, match=r"newer release \(revision 9999\).*pip install --upgrade transcripts"):
            Index.open(home.db)
        assert home.db.read_bytes() == data
        assert sorted(path.name for path in home.db.parent.iterdir()) == ["index.db", "index.db.lock"]
