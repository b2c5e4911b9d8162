"""The command line of branches, of sub-agents, and of going on in the client."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import Home, Log, session_id, uuid
from tests.shell import COMMAND
from transcripts.interfaces.cli import cli

SESSION = session_id(1)


@pytest.fixture
def here(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Two branches and a sub-agent, of a session that was started in a directory that exists."""
    directory = tmp_path / "shop"
    directory.mkdir()
    monkeypatch.chdir(directory)
    log = Log(common={"cwd": str(directory)}).turns(2)
    log.start = 100
    log.user("take the other way", parentUuid=uuid(2))
    home.write(log)
    helper = Log(first=50, common={"isSidechain": True, "agentId": "a1"}).turns(1)
    home.write(helper.data, f"{SESSION}/subagents/agent-a1.jsonl")
    home.sync()
    return home


def run(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(home.db), "--no-sync", *arguments])


def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A client that notes how it was started."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\npwd > "$0.log"\necho "$@" >> "$0.log"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program.with_suffix(".log")


class TestBranches:
    def test_the_picture_shows_each_end_with_its_uuid(self, here: Home) -> None:
        said = run(here, "branches", SESSION).stdout
        assert uuid(5) in said
        assert uuid(4) in said
        assert "take the other way" in said

    def test_json_gives_an_object_a_branch(self, here: Home) -> None:
        taken, left = map(json.loads, run(here, "branches", SESSION, "--json").stdout.splitlines())
        assert (taken["leaf"], taken["kind"], left["leaf"], left["fork"]) == (uuid(5), "resumed", uuid(4), uuid(2))

    def test_any_of_them_can_be_resumed(self, here: Home) -> None:
        said = run(here, "resume", SESSION, "--leaf", uuid(4), "--format", "uuids").stdout
        assert said.split() == [uuid(number) for number in range(1, 5)]


class TestResume:
    def test_a_sub_agent_is_resumed_by_its_id(self, here: Home) -> None:
        assert run(here, "resume", SESSION, "--agent", "a1", "--format", "uuids").stdout.split() == [uuid(50), uuid(51)]

    def test_messages_are_what_would_be_sent(self, here: Home) -> None:
        messages = [json.loads(line) for line in run(here, "resume", SESSION, "--format", "messages").stdout.splitlines()]
        assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]


class TestGoingOn:
    def test_exec_starts_the_client_in_the_directory_of_the_session(
        self, here: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        log = client(monkeypatch, tmp_path)
        command = [*COMMAND, "--db", str(here.db), "resume", SESSION, "--exec", "--fork"]
        assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
        assert log.read_text().splitlines() == [str(tmp_path / "shop"), f"--resume {SESSION} --fork-session"]

    def test_without_the_client_it_says_so(self, here: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        result = run(here, "resume", SESSION, "--exec")
        assert (result.exit_code, "not installed" in result.stderr) == (1, True)

    def test_a_directory_that_is_gone_is_told(self, here: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        client(monkeypatch, tmp_path)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "shop").rmdir()
        result = run(here, "resume", SESSION, "--exec")
        assert (result.exit_code, "directory is gone" in result.stderr) == (1, True)

    def test_continue_takes_the_newest_session_of_this_directory(self, here: Home) -> None:
        result = run(here, "continue", "--format", "uuids")
        assert result.stdout.split()[-1] == uuid(5)
        assert SESSION in result.stderr

    def test_continue_takes_that_of_another_worktree_too(
        self, here: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def git(*arguments: str) -> None:
            identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
            subprocess.run(["git", *identity, *arguments], cwd=tmp_path / "shop", check=True, capture_output=True)

        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("worktree", "add", "-q", str(tmp_path / "other"))
        monkeypatch.chdir(tmp_path / "other")
        assert SESSION in run(here, "continue", "--format", "uuids").stderr

    def test_elsewhere_there_is_nothing_to_continue(self, here: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        assert run(here, "continue").exit_code == 1
