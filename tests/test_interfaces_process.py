"""The command as a process: what it loads, closed pipes, Ctrl-C, the progress bar."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import Home, Log
from tests.shell import FIX, client_folder, objects, process, run, write_many

STOPPED_WHILE_CLOSING = """
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from transcripts.interfaces.cli import main

def closed(dialect, connection):
    raise KeyboardInterrupt

SQLiteDialect_pysqlite.do_close = closed
main()
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    program = (
        "import sys\n"
        "from transcripts.interfaces.cli import cli\n"
        "try: cli(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


class TestStart:
    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list", "--help"], ["demo", "--help"]])
    def test_help_loads_no_database_and_no_printer(self, arguments: list[str]) -> None:
        assert not loaded(*arguments) & {"sqlalchemy", "alembic", "rich", "orjson", "zstandard", "transcripts.api"}

    def test_the_package_alone_loads_no_database(self) -> None:
        program = "import sys, transcripts; assert 'sqlalchemy' not in sys.modules; transcripts.Index; transcripts.open"
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_a_question_to_a_current_database_loads_neither_alembic_nor_the_orm(self, apart: Path) -> None:
        client_folder(apart)
        run("sync")
        for arguments in (["list", "--json"], ["resume", FIX, "--format", "uuids"], ["sql", "SELECT 1", "--format", "csv"]):
            assert not loaded(*arguments) & {"alembic", "sqlalchemy.orm", "rich"}
        assert "rich.console" in loaded("sql", "SELECT 1")

    def test_a_command_loads_nothing_of_what_others_ask_nor_of_another_database(self, apart: Path) -> None:
        client_folder(apart)
        run("sync")
        questions = {"agents", "analytics", "branches", "catalog", "chain", "forking", "ondisk", "recording", "search", "storing"}
        for arguments, own in ((["sync"], set[str]()), (["list", "--json"], {"catalog"})):
            found = loaded(*arguments)
            assert {name for name in questions if f"transcripts.sessions.{name}" in found} == own
            assert not any(name.startswith("sqlalchemy.dialects.postgresql") for name in found)


class TestEnds:
    def test_a_closed_pipe_ends_quietly(self, apart: Path) -> None:
        client_folder(apart)
        run("sync")
        reading, writing = os.pipe()
        os.close(reading)
        for arguments in (["list"], ["list", "--json"], ["export", FIX], ["resume", FIX], ["sql", "SELECT 1"]):
            with process(*arguments, stdout=writing) as running:
                assert running.communicate()[1].replace(b"1 row.\n", b"") == b""
            assert running.returncode == 141, arguments
        os.close(writing)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
    def test_a_full_disk_is_said_without_a_traceback(self, apart: Path) -> None:
        client_folder(apart)
        run("sync")
        with open("/dev/full", "wb") as full, process("list", stdout=full) as running:
            assert b"No space left" in running.communicate()[1]
        assert running.returncode == 1

    def test_ctrl_c_during_an_import_leaves_a_sound_database_and_the_next_sync_completes_it(self, home: Home) -> None:
        write_many(home)
        with process("sync", home.projects, "--db", home.db) as running:
            wait_for_files(home.db, 3)
            running.send_signal(signal.SIGINT)
            assert b"The database is sound" in running.communicate()[1]
        assert running.returncode == 130
        with closing(sqlite3.connect(home.db)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert 0 < len(objects("list", "--no-sync", "--db", home.db)) < 40
        run("sync", "--db", home.db)
        assert len(objects("list", "--no-sync", "--db", home.db)) == 40
        assert run("verify", "--db", home.db).exit_code == 0

    def test_ctrl_c_while_a_connection_is_closed_is_one_sentence(self, home: Home) -> None:
        """The pool logs whatever it meets there, with a traceback."""
        home.write(Log().turns(1))
        stopping = [sys.executable, "-c", STOPPED_WHILE_CLOSING, "sync", str(home.projects), "--db", str(home.db)]
        done = subprocess.run(stopping, capture_output=True, text=True)
        assert done.returncode == 130
        assert done.stderr == "Stopped. The database is sound; the next sync goes on from here.\n"
        assert len(objects("list", "--db", home.db)) == 1


class TestProgress:
    def test_a_terminal_sees_a_bar_beside_the_data(self, home: Home) -> None:
        write_many(home, files=60)
        ours, theirs = pty.openpty()
        xterm = {**os.environ, "TERM": "xterm"}
        with process("sync", home.projects, "--json", "--db", home.db, stderr=theirs, env=xterm) as running:
            os.close(theirs)
            shown = read_to_end(ours)
            assert json.loads(running.communicate()[0])["new"] == 60
        assert running.returncode == 0
        assert "Importing" in shown
        assert "/s" in shown

    def test_a_pipe_sees_none(self, home: Home) -> None:
        write_many(home, files=10)
        with process("sync", home.projects, "--db", home.db) as running:
            assert running.communicate()[1] == b""


def wait_for_files(db: Path, number: int) -> None:
    """Wait until so many files are imported."""
    for _ in range(600):
        time.sleep(0.05)
        try:
            with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
                if connection.execute("SELECT count(*) FROM files").fetchone()[0] >= number:
                    return
        except sqlite3.OperationalError:
            continue
    raise AssertionError("the import does not get on")


def read_to_end(descriptor: int) -> str:
    data = b""
    try:
        while piece := os.read(descriptor, 65536):
            data += piece
    except OSError:  # Linux: the other side is closed
        pass
    os.close(descriptor)
    return data.decode()
