"""A scan against the database: what is new, changed, moved or gone; stopped anywhere, and by several at once."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import insert

from tests.builders import KEY, Home, Lab, Log, corpus, database_of, differing, rows, session_id, uuid
from transcripts.errors import DatabaseBusy
from transcripts.index.schema import forgotten

HERE = Path(__file__).parent.parent


def helper(*arguments: object) -> dict[str, list[str]]:
    """Run tests.killing; what it tells."""
    command = [sys.executable, "-m", "tests.killing", *map(str, arguments)]
    told: dict[str, list[str]] = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=HERE).stdout)
    return told


def states(home: Home) -> dict[str, str]:
    """path below the projects folder -> state, of the newest versions."""
    with home.open() as index:
        found = rows(index, "SELECT path, state FROM files ORDER BY version")
    return {path.removeprefix(f"{home.projects.resolve()}/"): state for path, state in found}


@pytest.fixture
def two(home: Home) -> Home:
    """Two projects with a session each, imported."""
    home.write(Log(session_id(1)).turns(2), key="-a")
    home.write(Log(session_id(2), first=100).turns(2), key="-b")
    home.sync()
    return home


class TestStoppedAnywhere:
    def test_an_import_killed_200_times_ends_in_the_content_of_one_import(self, home: Home, lab: Lab, tmp_path: Path) -> None:
        corpus(home, sessions=8, turns=150)
        whole = lab.home("whole")
        whole.root = home.root
        whole.sync()
        told = helper("random", home.projects, tmp_path / "killed", 200, 20260301)
        assert told["killed"] == ["200"]
        for database in [*told["done"][-2:], *told["last"]]:
            killed = Home(home.root, Path(database))
            killed.sync()
            assert differing(killed.state(), whole.state()) == []

    def test_an_import_stopped_after_any_commit_and_run_again_ends_in_the_content_of_one(
        self, home: Home, tmp_path: Path
    ) -> None:
        corpus(home, sessions=5, turns=20)
        home.sync()
        changed = home.path(session_id(1), "-home-dev-p1")
        changed.write_bytes(changed.read_bytes() + Log(session_id(1), first=900_000).turns(40).data)  # grown
        home.write(Log(session_id(2), first=910_000).turns(60), key="-home-dev-p0")  # another text
        changed = home.path(session_id(3), "-home-dev-p1")
        changed.write_bytes(changed.read_bytes()[:3000] + b"\n" + Log(session_id(3), first=920_000).turns(5).data)  # cut
        home.path(session_id(4), "-home-dev-p0").rename(home.path(session_id(4), "-home-dev-p1"))
        home.path(session_id(5), "-home-dev-p1").unlink()
        home.write(Log(session_id(6), first=930_000).turns(3), key="-home-dev-p1")
        told = helper("commits", home.projects, home.db, tmp_path / "stopped")
        assert len(told["stopped"]) > 15
        home.sync()
        whole = home.state()
        for database in told["stopped"]:
            stopped = Home(home.root, Path(database))
            stopped.sync()
            assert differing(stopped.state(), whole) == [], database


class TestGoneAndBack:
    def test_a_file_that_vanished_is_gone_and_all_of_it_stays(self, two: Home, tmp_path: Path) -> None:
        data = two.path(session_id(1), "-a").read_bytes()
        before = two.state()
        two.path(session_id(1), "-a").unlink()
        assert two.sync().vanished == 1
        assert states(two) == {f"-a/{session_id(1)}.jsonl": "gone", f"-b/{session_id(2)}.jsonl": "live"}
        after = two.state()
        assert {line.split(":")[0].split(" ")[-1] for line in differing(after, before)} == {"state", "list"}
        with two.open() as index:
            index.export(session_id(1), tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_bytes() == data
        assert not two.sync().changed

    def test_a_whole_project_can_vanish(self, two: Home) -> None:
        shutil.rmtree(two.projects / "-a")
        assert two.sync().vanished == 1
        assert states(two)[f"-a/{session_id(1)}.jsonl"] == "gone"

    def test_a_file_that_comes_back_is_live_again(self, two: Home) -> None:
        path = two.path(session_id(1), "-a")
        log = path.read_bytes()
        before = two.state()
        path.unlink()
        two.sync()
        path.write_bytes(log)
        report = two.sync()
        assert (report.new, report.rewritten, report.bytes) == (0, 0, 0)
        assert differing(two.state(), before) == []

    def test_a_file_that_comes_back_longer_goes_on(self, two: Home) -> None:
        path = two.path(session_id(1), "-a")
        path.unlink()
        two.sync()
        path.write_bytes(Log(session_id(1)).turns(3).data)
        assert two.sync().grown == 1
        with two.open() as index:
            assert (index.session(session_id(1)).message_count, index.session(session_id(1)).versions) == (6, 1)

    def test_a_missing_root_marks_nothing(self, two: Home) -> None:
        two.projects.rename(two.root / "away")
        report = two.sync()
        assert (report.vanished, len(report.problems)) == (0, 1)
        assert set(states(two).values()) == {"live"}

    def test_a_missing_file_in_a_missing_folder_marks_nothing(self, two: Home) -> None:
        path = two.path(session_id(1), "-a")
        two.projects.rename(two.root / "away")
        two.sync(path)
        assert set(states(two).values()) == {"live"}

    @pytest.mark.parametrize("depth", ["root", "project", "session"])
    def test_an_unreadable_folder_marks_nothing_below_it(self, two: Home, forbid: Callable[[Path], None], depth: str) -> None:
        two.write(b"x", f"{session_id(1)}/tool-results/t.txt", key="-a")
        two.sync()
        shutil.rmtree(two.projects / "-a" / session_id(1) / "tool-results") if depth == "session" else None
        folder = {"root": two.projects, "project": two.projects / "-a", "session": two.projects / "-a" / session_id(1)}[depth]
        forbid(folder.resolve())
        assert two.sync().vanished == 0
        assert set(states(two).values()) == {"live"}

    def test_a_sync_of_one_path_marks_nothing_outside_it(self, two: Home) -> None:
        shutil.rmtree(two.projects / "-a")
        two.sync(two.projects / "-b")
        two.sync(two.path(session_id(2), "-b"))
        assert set(states(two).values()) == {"live"}

    def test_a_sync_of_a_vanished_file_marks_it_alone(self, two: Home) -> None:
        two.path(session_id(1), "-a").unlink()
        two.path(session_id(2), "-b").unlink()
        assert two.sync(two.path(session_id(1), "-a")).vanished == 1
        assert states(two)[f"-b/{session_id(2)}.jsonl"] == "live"

    def test_a_link_that_no_longer_leads_to_a_folder_marks_nothing_behind_it(self, two: Home, tmp_path: Path) -> None:
        (two.projects / "-a").rename(tmp_path / "elsewhere")
        (two.projects / "-a").symlink_to(tmp_path / "elsewhere")
        two.sync()
        assert set(states(two).values()) == {"live"}


class TestMoved:
    def test_a_project_folder_that_moved_is_moved_and_not_new(self, two: Home) -> None:
        two.write(Log(session_id(1), first=50).turns(1).data, f"{session_id(1)}/subagents/agent-x.jsonl", key="-a")
        two.write(Log(session_id(1), first=60).turns(1).data, "agent-old.jsonl", key="-a")
        two.write(b"big", f"{session_id(1)}/tool-results/t.txt", key="-a")
        two.sync()
        (two.projects / "-a").rename(two.projects / "-z")
        report = two.sync()
        assert (report.moved, report.new, report.vanished, report.bytes) == (4, 0, 0, 0)
        assert {path.split("/")[0] for path in states(two)} == {"-z", "-b"}
        with two.open() as index:
            told = index.session(session_id(1))
            assert (told.project_key, told.agent_count, told.state, told.versions) == ("-z", 2, "live", 1)
            assert index.damage() == []

    def test_a_file_that_moved_and_grew_goes_on_where_it_was(self, two: Home) -> None:
        two.path(session_id(1), "-a").unlink()
        two.write(Log(session_id(1)).turns(3), key="-c")
        report = two.sync()
        assert (report.moved, report.new, report.grown) == (1, 0, 1)
        with two.open() as index:
            assert index.session(session_id(1)).message_count == 6

    def test_a_file_of_the_same_name_with_another_beginning_is_new(self, two: Home) -> None:
        two.path(session_id(1), "-a").unlink()
        two.write(Log(session_id(1), first=500).turns(3), key="-c")
        report = two.sync()
        assert (report.moved, report.new, report.vanished) == (0, 1, 1)

    def test_a_copy_is_new_while_the_first_stands(self, two: Home) -> None:
        two.write(two.path(session_id(1), "-a").read_bytes(), session_id(1), key="-c")
        report = two.sync()
        assert (report.moved, report.new) == (0, 1)

    def test_what_was_gone_for_a_while_is_moved_too(self, two: Home) -> None:
        path = two.path(session_id(1), "-a")
        data = path.read_bytes()
        path.unlink()
        two.sync()
        two.write(data, session_id(1), key="-c")
        assert two.sync().moved == 1
        assert states(two)[f"-c/{session_id(1)}.jsonl"] == "live"

    def test_what_hangs_on_the_path_follows_a_move(self, two: Home) -> None:
        """Of equal copies the path decides who owns a response, and of equal summaries which one is the title."""
        copy = Log(session_id(1)).turns(2)
        two.write(copy, key="-m")
        for number, key in ((3, "-c"), (4, "-d")):
            log = Log(session_id(number), first=number * 100).turns(1)
            log.summary(f"From {number}", leaf=uuid(2))
            two.write(log, key=key)
        two.sync()
        (two.projects / "-a").rename(two.projects / "-z")
        (two.projects / "-c").rename(two.projects / "-y")
        two.sync()
        with two.open() as index:
            assert index.session(session_id(1)).title == "From 3"
            assert index.damage() == []


class TestRoots:
    def test_what_was_synced_is_a_root_from_then_on(self, two: Home) -> None:
        with two.open() as index:
            assert index.roots() == [str(two.projects.resolve())]
            two.write(Log(session_id(3), first=300).turns(1), key="-c")
            assert index.sync().new == 1

    def test_a_path_below_a_root_is_none_of_its_own_and_a_root_above_takes_its_place(self, home: Home) -> None:
        home.write(Log().turns(1))
        with home.open() as index:
            index.sync([home.path(session_id(1))])
            assert index.roots() == [str(home.path(session_id(1)).resolve())]
            index.sync([home.projects / KEY])
            index.sync([home.path(session_id(1))])
            assert index.roots() == [str((home.projects / KEY).resolve())]
            index.sync([home.root])
            assert index.roots() == [str(home.projects.resolve())]

    def test_a_missing_path_is_told_and_no_root(self, home: Home) -> None:
        with home.open() as index:
            assert len(index.sync([home.root / "absent"]).problems) == 1
            assert index.roots() == []


class TestForgotten:
    def test_a_forgotten_session_does_not_come_back(self, home: Home) -> None:
        home.write(Log(session_id(1)).turns(1))
        home.write(Log(session_id(1), first=50).turns(1).data, f"{session_id(1)}/subagents/agent-x.jsonl")
        home.write(Log(session_id(2), first=100).turns(1))
        with home.open() as index:
            values = {"source": "local", "project_key": KEY, "session_id": session_id(1), "forgotten_at": 0}
            with database_of(index).write() as connection:
                connection.execute(insert(forgotten).values(values))
            assert index.sync([home.projects]).new == 1
            assert not index.sync().changed
            assert not index.sync([home.path(session_id(1))]).changed
            assert [told.id for told in index.sessions()] == [session_id(2)]


class TestSeveralAtOnce:
    def test_processes_that_sync_one_growing_folder_at_once_end_in_the_content_of_one(
        self, home: Home, lab: Lab, tmp_path: Path
    ) -> None:
        """Readers meanwhile are never refused, and see whole transactions only."""
        logs = [Log(session_id(at), first=at * 1000).turns(60) for at in range(1, 5)]
        home.write(logs[0].data[:100], session_id(1))
        with home.open():
            pass
        command = [sys.executable, "-m", "tests.killing", "again", str(home.projects), str(home.db), str(tmp_path / "stop")]
        writers = [subprocess.Popen(command, cwd=HERE) for _ in range(3)]
        reads = 0
        with home.open() as index:
            for at in range(1, 41):
                for log in logs:
                    with open(home.write(b"", "unused.txt").with_name(f"{log.session}.jsonl"), "ab") as file:
                        file.write(log.data[file.tell() : len(log.data) * at // 40])
                there = "(SELECT count(*) FROM entries JOIN sessions USING (file))"
                ((listed, found),) = rows(index, f"SELECT sum(entry_count), {there} FROM sessions")
                assert listed in (None, found), "a list that disagrees with its rows"
                reads += 1
            (tmp_path / "stop").touch()
        assert [writer.wait(120) for writer in writers] == [0, 0, 0]
        home.sync()
        home.path("unused.txt").unlink()
        whole = lab.home("whole")
        whole.root = home.root
        whole.sync()
        assert differing(home.state(), whole.state()) == []
        assert reads == 40

    def test_a_busy_writer_makes_a_fresh_answer_stale_and_a_sync_wait_and_then_fail(self, two: Home) -> None:
        holding = (
            "import sys, filelock\nwith filelock.FileLock(sys.argv[1]):\n    print('held', flush=True)\n    sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", holding, f"{two.db}.lock"]
        two.write(Log(session_id(3), first=300).turns(1), key="-c")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            with two.open(fresh=True) as index:
                assert (len(index.sessions()), index.stale) == (2, True)
                database_of(index).lock_timeout = 0.3
                with pytest.raises(DatabaseBusy, match=r"is being written by another process \(waited 0\.3 s\)"):
                    index.sync()
            holder.communicate()
        with two.open(fresh=True) as index:
            assert (len(index.sessions()), index.stale) == (3, False)

    def test_with_nothing_to_import_a_busy_writer_makes_no_answer_stale(self, two: Home) -> None:
        with two.open(fresh=True) as index, two.open() as other, database_of(other).write():
            assert (len(index.sessions()), index.stale) == (2, False)

    def test_a_writer_that_does_not_know_the_lock_file_is_waited_for_no_longer(self, two: Home) -> None:
        two.write(Log(session_id(3), first=300).turns(1), key="-c")
        other = sqlite3.connect(two.db, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with two.open(fresh=True) as index:
                assert (len(index.sessions()), index.stale) == (2, True)
                database_of(index).lock_timeout = 0.1
                with pytest.raises(DatabaseBusy):
                    index.sync()
        finally:
            other.close()

    def test_readers_in_threads_of_one_handle_each_see_one_moment(self, two: Home) -> None:
        log = Log(session_id(1))
        with two.open(fresh=True) as index, ThreadPoolExecutor(4) as pool:
            counts = []
            for _ in range(10):
                two.write(log.turns(1), key="-a")
                counts += list(pool.map(lambda _: index.session(session_id(1)).message_count, range(4)))
            assert index.session(session_id(1)).message_count == 20
            assert all(number % 2 == 0 for number in counts)


class TestOlderVersions:
    def test_rows_of_an_older_derived_version_are_made_again_by_the_next_sync(self, two: Home) -> None:
        two.path(session_id(1), "-a").unlink()
        two.sync()
        before = two.state()
        with two.open() as index, database_of(index).write() as connection:
            connection.exec_driver_sql("UPDATE files SET derived_version = 0")
            connection.exec_driver_sql("UPDATE messages SET parent = NULL, type = 'system'")
        report = two.sync()
        assert report.bytes == 0
        assert differing(two.state(), before) == []
        assert not two.sync().changed

    def test_a_report_of_progress_ends_at_all_bytes(self, home: Home) -> None:
        corpus(home, sessions=2, turns=40)
        seen: list[tuple[int, int]] = []
        with home.open() as index:
            index.sync([home.projects], progress=lambda told: seen.append((told.done, told.total)))
        size = sum(os.path.getsize(path) for path in home.projects.rglob("*") if path.is_file())
        assert all(done <= total == size for done, total in seen)
