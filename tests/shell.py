"""The command line as tests call it: inside this process, or as one of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import transcripts
from tests.builders import Home, Json, Log, session_id, text
from transcripts.interfaces.cli import cli

SAMPLE = Path(transcripts.__file__).parent / "sample"
FIX, SQLITE, WATCH, WORDS = "2286290b", "13b57d70", "c10ae156", "996610ee"  # the sessions of the sample
COMMAND = [sys.executable, "-c", "from transcripts.interfaces.cli import main; main()"]


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    """Call a command here; what it wrote to standard output and error, and its exit code."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, prog_name="transcripts")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def objects(*arguments: str | Path, code: int = 0) -> list[Json]:
    """Call a command with --json; the objects it wrote."""
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def process(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def client_folder(home: Path) -> Path:
    """The sample as the folder of the client that the user has."""
    return Path(shutil.copytree(SAMPLE, home / ".claude"))


def write_many(home: Home, files: int = 40, turns: int = 100) -> None:
    """Transcripts whose import takes a while."""
    for number in range(files):
        log = Log(session_id(number), first=number * 1000)
        for _ in range(turns):
            log.user("a question")
            log.assistant([text("word " * 1500)])
        home.write(log)
