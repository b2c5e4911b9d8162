"""Work in processes of their own: what comes of it is what is done without them, however they fare."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest

from tests.builders import CASES, Home, Log, corpus, differing, session_id
from transcripts.files.discover import TranscriptFile
from transcripts.index import apart, importer, prepare, sync
from transcripts.index.apart import Apart
from transcripts.index.importer import Begun

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, and what a group of processes is")

PROCESSES = 2
EACH = 40  # of the cases: all take a minute


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes for the smallest import, and batches of a few lines."""
    monkeypatch.setattr(apart, "WORTH", 1)
    monkeypatch.setattr(apart, "_cores", lambda: PROCESSES + 1)
    monkeypatch.setattr(prepare, "BATCH_BYTES", 4000)


@pytest.fixture
def fulfilled(many: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All work is done by processes, though they take longer to start than a small import; an item for each answer."""
    answered, fulfil, done = Apart._answered, apart._fulfil, [0][:0]

    def patient(self: Apart, call: Any) -> Any:
        while call in self._asked and self._tended:
            time.sleep(0.001)
        return answered(self, call)

    def counted(call: Any, to: int, source: int) -> None:
        fulfil(call, to, source)
        done.append(len(call.answer.result()))

    monkeypatch.setattr(Apart, "_answered", patient)
    monkeypatch.setattr(apart, "_fulfil", counted)
    return done


def cases(home: Home) -> None:
    """Of each corpus of the tests something, in one folder."""
    corpus(home, sessions=3, turns=20)
    for number, path in enumerate(sorted(CASES.rglob("*.jsonl"))[::EACH]):
        home.write(path.read_bytes(), session_id(1000 + number), "-cases")


def alone(home: Home, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The state of another database with the same files, imported without processes."""
    with monkeypatch.context() as patched:
        patched.setattr(apart, "WORTH", sys.maxsize)
        other = Home(home.root, home.db.parent / name / "index.db")
        other.sync()
        return other.state()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("fulfilled")
class TestCalls:
    def test_answers_come_in_order_from_other_processes(self) -> None:
        with Apart(1) as workers:
            assert list(workers.map(abs, range(-50, 0))) == list(range(50, 0, -1))
            assert workers.submit(os.getpid)() in {process.pid for process in workers._started}

    def test_a_call_that_raises_raises_where_it_is_asked_for(self) -> None:
        with Apart(1) as workers:
            failing, next_one = workers.submit(operator.truediv, 1, 0), workers.submit(operator.add, 1, 2)
            with pytest.raises(ZeroDivisionError):
                failing()
            assert next_one() == 3

    def test_an_answer_that_cannot_be_sent_is_made_here(self) -> None:
        with Apart(1) as workers:
            assert not workers.submit(Lock)().locked()

    def test_what_a_killed_process_was_at_is_done_here(self) -> None:
        with Apart(1) as workers:
            while (pid := workers.submit(os.getpid)()) == os.getpid():
                pass
            calls = [workers.submit(sum, range(5_000_000)) for _ in range(6)]
            time.sleep(0.05)
            for process in workers._started:
                process.kill()
            assert [call() for call in calls] == [sum(range(5_000_000))] * 6
            assert not is_there(pid) or workers._tended < PROCESSES

    def test_a_message_larger_than_any_pipe_goes_both_ways(self) -> None:
        data = os.urandom(1000) * 5000
        with Apart(1) as workers:
            assert workers.submit(bytes.upper, data)() == data.upper()

    def test_nothing_runs_when_the_block_has_ended(self) -> None:
        with suppress(KeyError), Apart(1) as workers:
            assert workers.submit(os.getpid)() != os.getpid()
            for _ in range(10):
                workers.submit(time.sleep, 60)
            raise KeyError
        assert not any(is_there(process.pid) for process in workers._started)
        assert not any(thread.is_alive() for thread in workers._threads)

    def test_a_block_that_ends_at_once_leaves_no_process(self) -> None:
        for _ in range(5):
            with Apart(1) as workers:
                pass
            assert not any(is_there(process.pid) for process in workers._started)


@pytest.mark.usefixtures("many")
class TestNoProcess:
    @pytest.mark.parametrize(
        "program",
        [
            "exit 0",
            "exec sleep 60",  # a program with a window, which reads nothing and does not end
            "exec cat /dev/zero",
            "echo usage: this; exec sleep 60",
            "kill -9 $$",
        ],
    )
    def test_where_the_executable_is_another_program_all_is_done_here(
        self, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path / "other"
        other.write_text(f"#!/bin/sh\n{program}\n")
        other.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(other))
        with Apart(1) as workers:
            assert list(workers.map(abs, range(-20, 0))) == list(range(20, 0, -1))
        assert not any(is_there(process.pid) for process in workers._started)
        assert not workers._asked

    @pytest.mark.parametrize("executable", ["", None, "/nowhere/python"])
    def test_without_an_executable_all_is_done_here(self, executable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", executable)
        with Apart(1) as workers:
            assert list(workers.map(abs, [-1, -2])) == [1, 2]

    def test_a_path_that_cannot_be_passed_on_is_no_fault(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "path", [*sys.path, "a\0b"])
        with Apart(1) as workers:
            assert list(workers.map(abs, [-1, -2])) == [1, 2]
        assert capsys.readouterr().err == ""

    def test_a_frozen_program_does_not_begin_itself_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        with Apart(1) as workers:
            assert workers.processes == 0
            assert workers.submit(abs, -1)() == 1

    def test_where_no_thread_can_be_started_all_is_done_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def start(_self: Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(Thread, "start", start)
        with Apart(1) as workers:
            assert workers.submit(abs, -1)() == 1


class TestImport:
    def test_rows_and_texts_are_those_of_an_import_without_processes(
        self, home: Home, fulfilled: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases(home)
        home.sync()
        assert len(fulfilled) > 15
        assert all(fulfilled), "none was made here"
        assert differing(home.state(), alone(home, "alone", monkeypatch)) == []

    def test_killed_processes_change_nothing(self, home: Home, fulfilled: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        corpus(home, sessions=4, turns=20)
        fulfil = apart._fulfil

        def dying(call: Any, to: int, source: int) -> None:
            if len(fulfilled) == 5:
                for process in made[0]._started:
                    process.kill()
            fulfil(call, to, source)

        init, made, before = Apart.__init__, list[Apart](), list[int]()

        def noted(self: Apart, size: int) -> None:
            init(self, size)
            if self.processes:
                made.append(self)
                before.append(len(fulfilled))

        monkeypatch.setattr(Apart, "__init__", noted)
        monkeypatch.setattr(apart, "_fulfil", dying)
        home.sync()
        assert len(made) == 2, "one for the rows, one for the texts"
        assert before[1] <= 5 + PROCESSES
        assert differing(home.state(), alone(home, "alone", monkeypatch)) == []

    def test_a_file_that_has_grown_is_not_prepared_from_its_beginning(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(apart, "WORTH", 5000)
        monkeypatch.setattr(apart, "_cores", lambda: 3)
        log = Log().turns(40)
        home.write(log)
        home.sync()
        started = list[object]()
        monkeypatch.setattr(apart, "Popen", lambda *args, **_options: started.append(args))
        log.user("one line more")
        home.write(log)
        assert home.sync().grown == 1
        assert started == []

    def test_only_new_files_are_begun(self, home: Home, many: None, monkeypatch: pytest.MonkeyPatch) -> None:
        log = Log().turns(40)
        home.write(log)
        home.sync()
        begun = list[str]()
        begin = importer.begin_file
        monkeypatch.setattr(sync, "begin_file", lambda found, to: begun.append(found.path) or begin(found, to))  # type: ignore[func-returns-value]
        log.user("one line more")
        home.write(log)
        new = home.write(Log(session_id(2), first=1000).turns(40))
        home.sync()
        assert begun == [str(new)]


def grows(path: Path) -> None:
    path.write_bytes(path.read_bytes() + Log(session_id(2), first=5000).turns(9).data)


def shrinks(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1500])


def is_rewritten(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"answer", b"ANSWER"))


def is_replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(path.read_bytes().replace(b"answer", b"ANSWER"))
    new.replace(path)


def is_emptied(path: Path) -> None:
    path.write_bytes(b"")


def vanishes(path: Path) -> None:
    path.unlink()


def becomes_a_link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


class TestWhatWasReadAhead:
    """A file that changed after its beginning was read is imported as it is now."""

    @pytest.fixture
    def change(self, many: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
        def after(what: Callable[[Path], None]) -> None:
            begin = importer.begin_file

            def begun(found: TranscriptFile, to: Apart) -> Begun | None:
                first = begin(found, to)
                if session_id(2) in found.path:
                    assert first
                    what(Path(found.path))
                return first

            monkeypatch.setattr(sync, "begin_file", begun)

        return after

    @pytest.mark.parametrize(
        "what", [grows, shrinks, is_rewritten, is_replaced, is_emptied, vanishes, becomes_a_link], ids=lambda what: what.__name__
    )
    def test_it_is_not_used(
        self,
        what: Callable[[Path], None],
        home: Home,
        change: Callable[[Callable[[Path], None]], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for number in (1, 2, 3):
            home.write(Log(session_id(number), first=number * 1000).turns(12))
        change(what)
        report = home.sync()
        assert not [problem for problem in report.problems if "cannot be read" in problem.reason]
        monkeypatch.setattr(sync, "begin_file", importer.begin_file)
        assert differing(home.state(), alone(home, "alone", monkeypatch)) == []
        with home.open() as index:
            assert index.damage() == []

    def test_a_pipe_in_its_place_holds_nobody_up(self, home: Home, change: Callable[[Callable[[Path], None]], None]) -> None:
        for number in (1, 2, 3):
            home.write(Log(session_id(number), first=number * 1000).turns(12))

        def pipe(path: Path) -> None:
            path.unlink()
            os.mkfifo(path)

        change(pipe)
        report = home.sync()
        assert [Path(problem.path).stem for problem in report.problems] == [session_id(2)]
        with home.open() as index:
            assert {session.id for session in index.sessions()} >= {session_id(1), session_id(3)}


PROGRAM = """
import sys
from transcripts.api import Index
from transcripts.index import apart, fulltext, prepare
from transcripts.index.report import Meter
apart.WORTH, apart._cores, prepare.BATCH_BYTES, fulltext._PORTION = 1, lambda: 3, 4000, 4000
print("begins", flush=True)
count = Meter.__call__
def told(meter, size):
    print(meter._phase, flush=True)
    count(meter, size)
Meter.__call__ = told
index = Index.open(sys.argv[1], fresh=False)
index.sync([sys.argv[2]])
print("ends", flush=True)
"""


class TestProgram:
    """Programs as they are written: with no guard around the main part, and not closing what they opened."""

    @pytest.fixture
    def program(self, home: Home, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
        corpus(home, sessions=2, turns=25)
        path = tmp_path / "program.py"
        path.write_text(PROGRAM)
        with home.open():
            pass
        with subprocess.Popen(
            [sys.executable, str(path), str(home.db), str(home.projects)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as running:  # fmt: skip
            yield running
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)

    def test_it_runs_once_and_ends(self, program: subprocess.Popen[str]) -> None:
        out, err = program.communicate(timeout=60)
        assert (out.splitlines()[0], out.count("begins"), out.splitlines()[-1], err) == ("begins", 1, "ends", "")
        assert program.returncode == 0
        assert group_is_gone(program.pid)

    @pytest.mark.parametrize("phase", ["files", "texts"])
    @pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
    def test_stopped_it_leaves_no_process_and_a_sound_database(
        self, phase: str, kill: signal.Signals, home: Home, program: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert program.stdout
        while program.stdout.readline() not in (f"{phase}\n", ""):
            pass
        if kill == signal.SIGINT:
            os.killpg(program.pid, kill)  # as a terminal does
        else:
            program.kill()
        out, _err = program.communicate(timeout=20)
        assert "ends" not in out
        assert group_is_gone(program.pid)
        with home.open() as index:
            assert all("not finished" in problem.reason for problem in index.damage())
        home.sync()
        assert differing(home.state(), alone(home, "alone", monkeypatch)) == []


def group_is_gone(group: int) -> bool:
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False
