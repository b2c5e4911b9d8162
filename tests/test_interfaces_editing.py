"""The commands that change: title, tag, untag, fork, delete, forget."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.builders import Home, Log, session_id, uuid
from tests.shell import objects, process, run

SESSION, OTHER = session_id(1), session_id(2)


@pytest.fixture(autouse=True)
def here(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sessions in the user's database."""
    path = home.write(Log().turns(1))
    home.write(Log(OTHER, first=10).turns(1))
    home.sync()
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    return path


class TestTitleAndTag:
    def test_a_title_is_given_and_told(self) -> None:
        done = run("title", SESSION, "A new\x1b[31m title")
        assert done.exit_code == 0
        assert "is called: A new title" in done.stderr
        assert objects("title", "A new\x1b[31m title", "Second")[0]["title"] == "Second"
        assert {told["title"] for told in objects("list")} == {"Second", "word 10 ask 0"}

    def test_a_tag_is_given_and_taken(self, here: Path) -> None:
        assert objects("tag", SESSION, "reports") == [{"session": SESSION, "tag": "reports", "path": str(here.resolve())}]
        assert [told["id"] for told in objects("list", "--tag", "reports")] == [SESSION]
        assert "has no tag" in run("untag", SESSION).stderr
        assert objects("list", "--tag", "reports", code=1) == []

    def test_what_cannot_be_is_wrong_usage(self, here: Path) -> None:
        assert run("title", SESSION, " ").exit_code == 2
        assert run("tag", SESSION, "\u200b").exit_code == 2
        here.unlink()
        gone = run("title", SESSION, "x")
        assert gone.exit_code == 2
        assert "transcripts restore" in gone.stderr

    def test_what_the_system_refuses_is_told_in_a_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(descriptor: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", refused)
        done = run("title", SESSION, "x")
        assert done.exit_code == 1
        assert "could not be written (No space left on device)" in done.stderr


class TestFork:
    def test_the_id_of_the_fork_is_all_that_is_written(self) -> None:
        done = run("fork", SESSION, "--title", "Another way")
        new = done.stdout.strip()
        assert run("resume", new, "--format", "uuids").stdout == run("resume", SESSION, "--format", "uuids").stdout
        assert [told["id"] for told in objects("list") if told["title"] == "Another way"] == [new]

    def test_new_uuids_up_to_a_message(self) -> None:
        told = objects("fork", SESSION, "--new-uuids", "--at", uuid(1))[0]
        assert (told["forked_from"], told["title"]) == (SESSION, "word 1 ask 0 (fork)")
        chain = run("resume", told["session"], "--format", "uuids").stdout.split()
        assert len(chain) == 1
        assert uuid(1) not in chain
        assert run("fork", SESSION, "--at", "nowhere").exit_code == 1


class TestDelete:
    def test_the_files_go_and_come_back(self, here: Path) -> None:
        data = here.read_bytes()
        assert objects("delete", SESSION) == [{"path": str(here.resolve())}]
        assert not here.exists()
        assert {told["state"] for told in objects("list")} == {"live", "deleted"}
        assert run("restore", SESSION).exit_code == 0
        assert here.read_bytes() == data

    def test_the_command_that_brings_it_back_means_this_one(self, home: Home, here: Path) -> None:
        assert run("delete", SESSION).stderr.endswith(f"transcripts restore {SESSION}\n")
        home.write(Log(first=30).turns(1), key="-other's copy")
        home.sync()
        run("restore", here)
        for gone in (here, home.path(SESSION, "-other's copy")):
            again = run("delete", gone).stderr.rpartition("with: ")[2]
            assert shlex.split(again) == ["transcripts", "restore", str(gone.resolve())]
            assert not gone.exists()
            assert run(*shlex.split(again)[1:]).exit_code == 0
            assert gone.exists()

    def test_latest_is_one_session_from_the_question_to_the_answer(self, home: Home) -> None:
        twin = home.write(Log(first=30, start=1000).turns(1), key="-twin")
        home.sync()
        run("delete", twin)
        assert run("resume", "latest", "--format", "uuids").stdout.split() == [uuid(30), uuid(31)]

    def test_an_id_that_reads_as_something_else_is_told_by_its_path(self, home: Home) -> None:
        for number, name in enumerate(("latest", "-x")):
            path = home.write(Log(name, first=40 + number, start=-1000).turns(1))
            home.sync()
            again = run("delete", path).stderr.rpartition("with: ")[2]
            assert shlex.split(again) == ["transcripts", "restore", str(path.resolve())]
            assert run(*shlex.split(again)[1:]).exit_code == 0
            assert path.exists()


class TestForget:
    def test_without_a_terminal_it_wants_a_word(self) -> None:
        done = run("forget", SESSION)
        assert done.exit_code == 2
        assert "--yes" in done.stderr
        assert len(objects("list")) == 2

    def test_with_the_word_it_forgets(self, here: Path) -> None:
        done = run("forget", SESSION, SESSION[:20] + SESSION[20:], "--yes")
        assert done.exit_code == 0
        assert "Forgotten: 1 file" in done.stderr
        assert str(here) in done.stderr
        assert [told["id"] for told in objects("list")] == [OTHER]
        assert run("show", SESSION).exit_code == 1
        assert objects("forget", OTHER, "--yes")[0]["session"] == OTHER

    @pytest.mark.parametrize(("answer", "left"), [("n\n", 2), ("y\n", 1)])
    def test_on_a_terminal_it_asks_first(self, answer: str, left: int) -> None:
        above, below = os.openpty()
        asked = process("forget", SESSION, stdin=below)
        os.close(below)
        os.write(above, answer.encode())
        _told, errors = asked.communicate()
        os.close(above)
        assert b"word 1 ask 0" in errors
        assert b"for good?" in errors
        assert asked.returncode == (0 if left == 1 else 1)
        assert len(objects("list")) == left
