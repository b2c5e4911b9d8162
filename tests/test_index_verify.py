"""Damage is named, whatever it is done to; and what is derived heals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sqlalchemy import Connection

from tests.builders import (
    CASES,
    Home,
    Json,
    Log,
    call,
    corpus,
    database_of,
    dumps,
    empty_database,
    result,
    session_id,
    stopped_after,
    text,
    uuid,
)
from transcripts.errors import ChunkDamaged, Problem
from transcripts.files import reader
from transcripts.index import prepare, verify
from transcripts.index.content import content, differences, totals
from transcripts.index.database import Database
from transcripts.index.frames import digest
from transcripts.index.schema import DERIVED, metadata, projects, responses

TABLES = [table.name for table in (*DERIVED, metadata.tables["responses"], metadata.tables["projects"])]
ONE_A_FILE = ("tags", "pointers", "sessions", "client_costs")
KEYS = {"entries": "id", "nodes": "id", "messages": "node", "problems": "id", "projects": "id", "responses": "rowid"}


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database that verify compares with is copied, not made: making one is most of the time."""
    monkeypatch.setattr(verify, "Database", lambda path: Database(empty_database(Path(path))))


def full(home: Home) -> Path:
    """A session that has at least one row in every derived table; its path."""
    log = Log()
    log.raw(b"\x00" * 20)
    log.user("why is the kettle slow?")
    log.chain("progress", data={})
    log.assistant([text("Because of the lime."), call("t1", "Bash", command="ls")], id="msg", requestId="req", tokens=7)
    log.user([result("t1", "a list")])
    log.chain("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preservedSegment": {"headUuid": "x"}})
    log.chain("user", message={"content": "and again"}, snipMetadata={"removedUuids": [uuid(1)]})
    log.user("[Request interrupted by user]")
    log.title("Kettle")
    log.summary("About a kettle", leaf=uuid(2))
    about: dict[str, Json] = {
        "tag": {"tag": "home"},
        "last-prompt": {"lastPrompt": "and again", "leafUuid": uuid(6)},
        "file-history-snapshot": {"messageId": uuid(1), "snapshot": {}},
        "mode": {"mode": "plan"},
        "cost-state": {"totalCostUSD": 0.25},
    }
    for kind, fields in about.items():
        log.about(kind, **fields)
    return home.write(log)


@contextmanager
def damaged(home: Home, *statements: str, values: tuple[Any, ...] = ()) -> Iterator[list[Problem]]:
    """What verify finds after the statements were run on the database by somebody else."""
    connection = sqlite3.connect(home.db)
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        assert connection.execute(statement, values if "?" in statement else ()).rowcount, statement
    connection.commit()
    connection.close()
    with home.open() as index:
        yield index.damage()


def first_row(home: Home, table: str) -> dict[str, Any]:
    with home.open() as index:
        found = index.sql(f"SELECT * FROM {table} LIMIT 1")
    return dict(zip(found.columns, found.rows[0], strict=True))


def key_of(table: str) -> str:
    primary = [column.name for column in metadata.tables[table].primary_key]
    return KEYS.get(table, primary[0])


class TestGood:
    def test_nothing_is_reported_of_a_good_database(self, home: Home) -> None:
        full(home)
        home.sync()
        with home.open() as index:
            assert index.damage() == []
            for table in TABLES:
                assert first_row(home, table), table

    def test_only_what_is_damaged_in_the_files_is_reported_of_the_evidence(self, home: Home) -> None:
        with home.open() as index:
            index.sync([CASES / "genuine", *CASES.glob("faults/*/projects")])
            assert index.damage() == []

    def test_verify_says_first_what_is_wrong_with_the_database_and_then_with_the_files(self, home: Home) -> None:
        full(home)
        home.sync()
        with damaged(home, "UPDATE tags SET tag = 'else'") as found, home.open() as index:
            assert [problem.reason for problem in index.verify()] == [found[0].reason, "NUL bytes"]


class TestDerivedTables:
    """Each derived table, one row at a time."""

    @pytest.mark.parametrize("table", TABLES)
    def test_a_row_that_is_deleted_is_named(self, home: Home, table: str) -> None:
        path = full(home)
        home.sync()
        key = key_of(table)
        with damaged(home, f"DELETE FROM {table} WHERE {key} = (SELECT {key} FROM {table} LIMIT 1)") as found:
            assert any(f"table {table}," in problem.reason for problem in found), found
            assert {problem.path for problem in found} <= {str(path.resolve()), str(home.db)}

    @pytest.mark.parametrize("table", TABLES)
    def test_a_value_that_is_changed_is_named(self, home: Home, table: str) -> None:
        full(home)
        home.sync()
        column = [column.name for column in metadata.tables[table].columns if column.name not in ("id", "file")][-1]
        value = first_row(home, table)[column]
        other = (1 - value if value in (0, 1) else 12345678) if isinstance(value, int) else "another"
        where = f"rowid = (SELECT rowid FROM {table} LIMIT 1)"
        with damaged(home, f"UPDATE {table} SET {column} = ? WHERE {where}", values=(other,)) as found:
            assert any(f"table {table}," in problem.reason for problem in found), found

    def test_a_value_of_any_column_is_part_of_what_is_compared(self, home: Home) -> None:
        full(home)
        home.sync()
        with home.open() as index:
            database = database_of(index)
            with database.read() as connection:
                good = content(connection, 1) | totals(connection)
            unseen = []
            for table in (*DERIVED, responses, projects):
                for column in table.columns:
                    if column.name not in ("id", "file"):
                        with database.engine.connect() as connection:
                            change = f"UPDATE {table.name} SET {column.name} = CASE {column.name} WHEN 1 THEN 0 ELSE 1 END "
                            change += f"WHERE rowid = (SELECT min(rowid) FROM {table.name})"
                            connection.exec_driver_sql(change)
                            bad = content(connection, 1) | totals(connection)
                            unseen += [] if differences(bad, good) else [f"{table.name}.{column.name}"]
                            connection.rollback()
            assert unseen == []

    @pytest.mark.parametrize("table", [name for name in TABLES if name not in ONE_A_FILE])
    def test_a_row_that_is_added_is_named(self, home: Home, table: str) -> None:
        full(home)
        home.sync()
        row = first_row(home, table)
        for column in metadata.tables[table].primary_key:
            if column.name != "file" or len(metadata.tables[table].primary_key) == 1:
                row[column.name] = 99_999_999 if isinstance(row[column.name], int) else "one more"
        if table == "nodes":
            row["uuid"] = "one more"
        if table == "projects":
            row["path"] = "/one/more"
        marks = ", ".join("?" for _ in row)
        with damaged(home, f"INSERT INTO {table} VALUES ({marks})", values=tuple(row.values())) as found:
            assert any(f"table {table}," in problem.reason for problem in found), found

    def test_a_parent_link_is_named_by_the_message_and_both_parents(self, home: Home) -> None:
        home.write(Log().turns(2))
        home.sync()
        with damaged(
            home, "UPDATE messages SET parent = (SELECT node FROM messages WHERE uuid LIKE '%1') WHERE uuid LIKE '%4'"
        ) as found:
            (problem,) = found
            assert uuid(4) in problem.reason
            assert f"parent is '{uuid(1)}', by the bytes '{uuid(3)}'" in problem.reason
            assert problem.offset

    def test_numbers_of_a_file_that_are_changed_are_named(self, home: Home) -> None:
        home.write(Log().turns(2))
        home.sync()
        with damaged(home, "UPDATE files SET imported_lines = 99") as found:
            assert "imported_lines is 99" in found[0].reason
        with damaged(home, "UPDATE files SET imported_lines = 4, imported_size = 3") as found:
            assert found


class TestUnfinished:
    def test_a_file_whose_import_was_stopped_is_told_and_not_taken_for_damaged(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home.write(Log(session_id(2), first=500).turns(2))
        path = home.write(Log().turns(30))
        home.sync()
        home.write(Log(first=100).turns(40))
        monkeypatch.setattr(prepare, "BATCH_BYTES", 1)
        monkeypatch.setattr(reader, "BLOCK_SIZE", 2000)
        with home.open() as index:
            for commits in (1, 3):
                with stopped_after(commits):
                    index.sync()
                assert [(problem.path, problem.reason) for problem in index.damage()] == [
                    (str(path.resolve()), "its import is not finished; run: transcripts sync")
                ]
            index.sync()
            assert index.damage() == []


class TestKeptBytes:
    @pytest.fixture
    def two(self, home: Home) -> Path:
        """A session of several chunks, and another one."""
        home.write(Log(session_id(2), first=10**6).turns(3))
        path = home.write(Log().turns(1500))
        home.sync()
        return path.resolve()

    def test_a_frame_that_is_damaged_is_named(self, home: Home, two: Path) -> None:
        with damaged(home, "UPDATE chunks SET frame = CAST(substr(frame, 1, 30) || zeroblob(30) AS BLOB) WHERE id = 2") as found:
            assert any("chunk 2 cannot be read" in problem.reason for problem in found), found

    def test_a_frame_of_other_bytes_is_named(self, home: Home, two: Path) -> None:
        frame = zstandard.ZstdCompressor().compress(b"." * two.stat().st_size)
        with damaged(home, "UPDATE chunks SET frame = ? WHERE id = 2", values=(frame,)) as found:
            assert any(problem.reason == "chunk 2 holds other bytes than its digest says" for problem in found), found

    def test_a_frame_that_is_cut_short_is_named(self, home: Home, two: Path) -> None:
        """Decompressing it says nothing of that: an export would be shorter than the file was."""
        compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        frame = compressor.compress(two.read_bytes()[:5000]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        with damaged(home, "UPDATE chunks SET frame = ? WHERE id = 2", values=(frame,)) as found:
            assert any(problem.reason == "chunk 2 cannot be read (it ends too early)" for problem in found), found

    def test_a_digest_that_is_changed_is_named(self, home: Home, two: Path) -> None:
        with damaged(home, "UPDATE chunks SET digest = ? WHERE id = 2", values=(digest(b"else"),)) as found:
            assert [problem.reason for problem in found] == ["chunk 2 holds other bytes than its digest says"]

    def test_a_length_that_is_changed_is_named(self, home: Home, two: Path) -> None:
        with damaged(home, "UPDATE chunks SET length = length + 1 WHERE id = 2") as found:
            assert found

    def test_a_chunk_that_is_missing_is_named_by_the_file_and_the_place(self, home: Home, two: Path) -> None:
        with damaged(home, "DELETE FROM chunks WHERE id = 2") as found:
            assert any(problem.reason.startswith("chunks: ") for problem in found), found
            assert all(problem.path for problem in found)

    def test_a_chunk_of_no_file_is_named(self, home: Home, two: Path) -> None:
        with damaged(home, "INSERT INTO chunks VALUES (99, x'00', 3, x'00')") as found:
            assert [problem.reason for problem in found] == ["chunk 99 belongs to no file"]

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM file_chunks WHERE offset = (SELECT max(offset) FROM file_chunks)",
            "DELETE FROM file_chunks WHERE offset = 0 AND chunk > 1",
            "UPDATE file_chunks SET offset = offset + 1 WHERE offset = (SELECT max(offset) FROM file_chunks)",
            "UPDATE file_chunks SET chunk = 1 WHERE chunk = 2",
            "INSERT INTO file_chunks SELECT file, offset + 10000000, 1 FROM file_chunks LIMIT 1",
        ],
    )
    def test_a_file_that_refers_to_other_chunks_is_named(self, home: Home, two: Path, statement: str) -> None:
        with damaged(home, statement) as found:
            assert found

    def test_bytes_of_a_side_file_that_were_exchanged_are_named(self, home: Home) -> None:
        home.write(b"one text", f"{session_id(1)}/tool-results/a.txt")
        home.write(b"two text", f"{session_id(1)}/tool-results/b.txt")
        home.sync()
        with damaged(home, "UPDATE file_chunks SET chunk = 3 - chunk") as found:
            assert len(found) == 2

    def test_damage_in_one_file_hides_no_damage_in_another(self, home: Home, two: Path) -> None:
        with damaged(
            home,
            "DELETE FROM chunks WHERE id = (SELECT chunk FROM file_chunks ORDER BY chunk DESC LIMIT 1)",
            "UPDATE messages SET type = 'system' WHERE uuid LIKE '%1000001'",
        ) as found:
            assert any("table messages" in problem.reason for problem in found), found

    def test_export_of_damaged_bytes_is_refused_in_words(self, home: Home, two: Path, tmp_path: Path) -> None:
        with damaged(home, "UPDATE chunks SET frame = x'00' WHERE id = 2"), home.open() as index:
            with pytest.raises(ChunkDamaged, match="run: transcripts verify"):
                index.export(session_id(1), tmp_path / "out.jsonl")
            assert list(tmp_path.glob("*.jsonl")) == list(tmp_path.glob(".transcripts-*")) == []


class TestLog:
    def test_no_reader_stays_while_rows_are_written(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would keep SQLite's log from starting anew: the log would grow to all that an import writes."""
        corpus(home, 3, 10)
        write, written = Database.write, []

        @contextmanager
        def alone(self: Database) -> Iterator[Connection]:
            pool: Any = self.engine.pool
            assert pool.checkedout() == (self._together() is not None)
            with write(self) as connection:
                written.append(1)
                yield connection

        monkeypatch.setattr(Database, "write", alone)
        home.sync()
        with home.open() as index:
            index.rebuild()
        assert len(written) > 10


class TestSearchIndex:
    @pytest.fixture
    def path(self, home: Home) -> Path:
        log = Log()
        log.user("alpha beta")
        log.user("gamma delta")
        log.user("epsilon")
        path = home.write(log)
        home.sync()
        return path.resolve()

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO search (search, rowid, prompt) VALUES ('delete', 2, 'gamma delta')",
            "INSERT INTO search (search, rowid, prompt) VALUES ('delete', 2, 'gamma other')",
            "DELETE FROM search_docsize WHERE id = 2",
            "UPDATE search_docsize SET sz = x'0500000000' WHERE id = 2",
            "INSERT INTO search_tools (entry, names) VALUES (2, '[\"Bash\"]')",
        ],
        ids=["deleted", "deleted with another text", "size deleted", "size changed", "another tool"],
    )
    def test_a_row_that_is_wrong_is_named_by_its_record(self, home: Home, path: Path, statement: str) -> None:
        with damaged(home, statement) as found:
            assert [(problem.path, problem.reason) for problem in found] == [
                (str(path), "search: the index disagrees with the text")
            ]
            assert found[0].offset == len(path.read_bytes().split(b"\n")[0]) + 1

    @pytest.mark.parametrize("statement", ["DELETE FROM search_spans", "UPDATE search_spans SET newest = newest - 1"])
    def test_a_span_that_a_search_by_time_would_pass_over_is_told(self, home: Home, path: Path, statement: str) -> None:
        with damaged(home, statement) as found:
            assert found and {problem.reason for problem in found} == {"search: the index disagrees with the text"}

    def test_a_row_too_many_is_named(self, home: Home, path: Path) -> None:
        with damaged(home, "INSERT INTO search (rowid, prompt) VALUES (77, 'nowhere')") as found:
            assert [problem.reason for problem in found] == ["search: the index disagrees with the text"]

    def test_tools_of_no_entry_are_told(self, home: Home, path: Path) -> None:
        with damaged(home, "INSERT INTO search_tools (entry, names) VALUES (77, '[\"Bash\"]')") as found:
            assert [problem.reason for problem in found] == ["search: the index disagrees with the text"]

    def test_a_row_of_another_text_is_named(self, home: Home, path: Path) -> None:
        statements = (
            "INSERT INTO search (search, rowid, prompt) VALUES ('delete', 3, 'epsilon')",
            "INSERT INTO search (rowid, prompt) VALUES (3, 'omega')",
        )
        with damaged(home, *statements) as found:
            assert [problem.offset for problem in found] == [path.read_bytes().rindex(b"\n", 0, -1) + 1]

    def test_many_rows_that_are_wrong_are_counted(self, home: Home) -> None:
        home.write(Log().turns(300))
        home.sync()
        with damaged(home, "INSERT INTO search (search) VALUES ('delete-all')") as found:
            assert (len(found), found[-1].reason) == (201, "search: the index disagrees with the text of 400 more records")

    def test_an_index_whose_blocks_are_gone_is_named(self, home: Home, path: Path) -> None:
        with damaged(home, "DELETE FROM search_data WHERE id > 10") as found:
            assert any("search" in problem.reason for problem in found)


class TestRebuild:
    @pytest.mark.parametrize(
        "statement",
        [
            *(f"DELETE FROM {table}" for table in TABLES),
            "UPDATE messages SET parent = NULL, type = 'user', is_meta = 1",
            "UPDATE files SET imported_lines = 99, imported_size = 1 WHERE kind = 'main'",
            "INSERT INTO search (rowid, prompt) VALUES (77, 'nowhere')",
            "DELETE FROM search_docsize",
            "UPDATE meta SET value = '0' WHERE key = 'search_mark'",
            "UPDATE meta SET value = '99999' WHERE key = 'search_mark'",
        ],
    )
    def test_whatever_is_derived_heals(self, home: Home, statement: str) -> None:
        full(home)
        home.sync()
        before = home.state()
        with damaged(home, statement), home.open() as index:
            index.rebuild()
            assert index.damage() == []
        assert home.state() == before

    def test_a_rebuild_that_is_stopped_is_finished_by_the_next_sync(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        full(home)
        home.write(Log(session_id(2), first=500).turns(2)).unlink(missing_ok=False)
        home.write(Log(session_id(2), first=500).turns(2))
        home.sync()
        home.path(session_id(2)).unlink()
        home.sync()
        before = home.state()
        with home.open() as index, monkeypatch.context() as patched:
            patched.setattr(verify, "derive_file", _stop)
            with pytest.raises(KeyboardInterrupt):
                index.rebuild()
        home.sync()
        assert home.state() == before

    def test_a_damaged_chunk_keeps_no_other_file_from_being_made_and_no_sync_from_going_on(self, home: Home) -> None:
        log = Log(session_id(1)).turns(1500)
        home.write(log)
        home.write(Log(session_id(2), first=10**6).turns(1))
        home.sync()
        home.path(session_id(1)).unlink()
        home.sync()
        with damaged(home, "UPDATE chunks SET frame = x'00' WHERE id = 2"), home.open() as index:
            report = index.rebuild()
            assert [problem.reason[:22] for problem in report.problems] == ["chunk 2 cannot be read"]
            assert index.session(session_id(2)).message_count == 2
            home.write(Log(session_id(3), first=2 * 10**6).turns(1))
            report = index.sync()
            assert (report.new, len(report.problems)) == (1, 1)
            assert index.session(session_id(3)).message_count == 2
            home.write(log)  # it comes back whole
            index.sync()
            assert index.session(session_id(1)).message_count == 3000

    def test_a_damaged_chunk_keeps_no_rewritten_file_from_being_read(self, home: Home) -> None:
        home.write(Log().turns(2))
        home.sync()
        with damaged(home, "UPDATE chunks SET frame = x'00'"), home.open() as index:
            home.write(Log(first=500).turns(3))
            index.sync()
            assert index.session(session_id(1)).message_count == 6
            assert "chunk 1 cannot be read" in index.damage()[0].reason

    def test_a_rebuild_leaves_what_is_kept_alone(self, home: Home) -> None:
        full(home)
        home.sync()
        kept = "SELECT * FROM chunks", "SELECT * FROM file_chunks", "SELECT id, path, state, kept_size, head_digest FROM files"
        with home.open() as index:
            before = [index.sql(query).rows for query in kept]
            report = index.rebuild()
            assert [index.sql(query).rows for query in kept] == before
            assert (report.bytes, report.new) == (0, 0)


def _stop(*_arguments: object) -> None:
    raise KeyboardInterrupt


class TestContent:
    def test_content_tells_keys_by_what_they_stand_for(self, home: Home) -> None:
        home.write(Log().turns(1).data + dumps({"type": "tag", "tag": "a"}))
        home.sync()
        with home.open() as index, database_of(index).read() as connection:
            told = content(connection, 1)
            assert told["messages"][(0, uuid(1))]["parent"] is None
            assert told["messages"][(len(Log().turns(1).lines[0]) + 1, uuid(2))]["parent"] == uuid(1)
