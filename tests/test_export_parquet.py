"""Beyond one file of SQLite: Parquet files, and DuckDB on them and on the database itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_sqlite_scanner
import pyarrow.parquet
import pytest

from tests.builders import CASES, Home, database_of
from tests.shell import objects, run
from transcripts.api import Index
from transcripts.errors import FileExists, InvalidRequest
from transcripts.export.parquet import TABLES
from transcripts.index.views import VIEWS

SCANNER = Path(str(duckdb_extension_sqlite_scanner.__file__)).parent / "extensions" / f"v{duckdb.__version__}"


@pytest.fixture
def index(home: Home) -> Iterator[Index]:
    with Index.open(home.db, fresh=False, zone="Asia/Kolkata") as index:
        index.sync([CASES / "genuine", *CASES.glob("faults/*/projects")])
        yield index


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows in any order; the truth of a thing may be a number, and a sum of costs depends on the order."""

    def plain(value: Any) -> Any:
        return int(value) if isinstance(value, bool) else round(value, 9) if isinstance(value, float) else value

    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def test_duckdb_reads_the_database_itself_and_every_view_of_it(index: Index, home: Home) -> None:
    with duckdb.connect() as duck:
        duck.execute(f"LOAD '{SCANNER / 'sqlite_scanner.duckdb_extension'}'")
        duck.execute(f"ATTACH '{home.db}' AS t (TYPE sqlite, READ_ONLY); USE t")
        for view in VIEWS:
            assert told(duck.execute(f"SELECT * FROM {view}").fetchall()) == told(index.sql(f"SELECT * FROM {view}").rows), view


def test_duckdb_reads_the_files_and_every_view_over_them(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = index.export_parquet(tmp_path / "tables")
    assert [os.path.basename(path) for path in written] == [*(f"{table.name}.parquet" for table in TABLES), "views.sql"]
    monkeypatch.chdir(tmp_path / "tables")
    with duckdb.connect() as duck:
        duck.execute(Path("views.sql").read_text())
        for view in VIEWS:
            assert told(duck.execute(f"SELECT * FROM {view}").fetchall()) == told(index.sql(f"SELECT * FROM {view}").rows), view


def test_a_file_has_the_rows_and_types_of_its_table(index: Index, tmp_path: Path) -> None:
    index.export_parquet(tmp_path)
    for table in TABLES:
        read = pyarrow.parquet.read_table(tmp_path / f"{table.name}.parquet")
        assert read.column_names == [column.name for column in table.columns]
        with database_of(index).read() as connection:
            rows = [tuple(row) for row in connection.execute(table.select())]
        assert told([tuple(row.values()) for row in read.to_pylist()]) == told(rows), table.name
        assert os.stat(tmp_path / f"{table.name}.parquet").st_mode & 0o777 == 0o600


def test_nothing_is_written_over_and_nothing_half_is_left(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "files.parquet").write_bytes(b"mine")
    with pytest.raises(FileExists, match=r"files\.parquet is there already"):
        index.export_parquet(tmp_path / "old")
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["files.parquet"]

    def stop(*_args: Any, **_kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("transcripts.export.parquet.views_sql", stop)
    with pytest.raises(KeyboardInterrupt):
        index.export_parquet(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_without_the_library_it_says_what_to_install(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidRequest, match=r"pip install 'transcripts\[parquet\]'"):
        index.export_parquet(tmp_path)


def test_on_the_command_line(index: Index, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    told = objects("export", "--parquet", tmp_path / "out", "--no-sync")
    assert [value["path"] for value in told] == [
        str(tmp_path / "out" / name) for name in (*(f"{t.name}.parquet" for t in TABLES), "views.sql")
    ]
    assert run("export", "latest", "--parquet", tmp_path / "other").exit_code == 2
    assert run("export").exit_code == 2
