"""Imports that are stopped: run as a program by test_index_sync.py, since what is killed must be a process of its own.

    python -m tests.killing random ROOT FOLDER KILLS SEED     SIGKILL at random times, databases begun anew when one is done
    python -m tests.killing commits ROOT DATABASE COPIES      one copy of the database for each commit, stopped just after it
    python -m tests.killing again ROOT DATABASE STOP          sync again and again until the file STOP is there

The process loads everything once and forks the importers, so that a hundred kills take seconds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

import transcripts.index.upgrade  # noqa: F401  loaded once, before the forks
from transcripts.api import Index
from transcripts.files import reader
from transcripts.index import archive, fulltext, prepare
from transcripts.index.database import Database


def small_steps() -> None:
    """Many small transactions instead of a few large ones."""
    reader.BLOCK_SIZE = archive.CHUNK_SIZE = 16 * 1024
    prepare.BATCH_BYTES = 1
    fulltext.BATCH = 100


def import_all(database: Path, root: str) -> None:
    with Index.open(database, fresh=False) as index:
        index.sync([root])


def at_random(root: str, folder: Path, kills: int, seed: int) -> dict[str, list[str]]:
    """Kill importers until so many were killed; the databases whose import came to its end all the same."""
    chance = random.Random(seed)
    killed = 0
    done: list[str] = []
    while killed < kills:
        database = folder / f"{len(done)}" / "index.db"
        child = os.fork()
        if child == 0:
            import_all(database, root)
            os._exit(0)
        time.sleep(chance.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        _pid, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            done.append(str(database))
            assert os.WEXITSTATUS(status) == 0, "the importer failed"
    return {"killed": [str(killed)], "done": done, "last": [str(database)]}


def after_each_commit(root: str, database: Path, copies: Path) -> dict[str, list[str]]:
    """Copies of the database of which each was stopped after one commit more."""
    stopped: list[str] = []
    while True:
        copy = copies / f"{len(stopped) + 1}" / "index.db"
        copy.parent.mkdir(parents=True)
        shutil.copyfile(database, copy)
        child = os.fork()
        if child == 0:
            _exit_after(len(stopped) + 1)
            import_all(copy, root)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return {"stopped": stopped}
        assert os.waitstatus_to_exitcode(status) == 9, "the importer failed"
        stopped.append(str(copy))


def again_and_again(root: str, database: Path, stop: Path) -> dict[str, list[str]]:
    times = 0
    while not stop.exists():
        import_all(database, root)
        times += 1
    return {"times": [str(times)]}


def _exit_after(commits: int) -> None:
    write, left = Database.write, [commits]

    @contextmanager
    def counted(self: Database) -> Iterator[Connection]:
        with write(self) as connection:
            yield connection
        left[0] -= 1
        if not left[0]:
            os._exit(9)

    Database.write = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    mode, root, *rest = sys.argv[1:]
    if mode == "again":
        told = again_and_again(root, Path(rest[0]), Path(rest[1]))
    else:
        small_steps()
        if mode == "random":
            told = at_random(root, Path(rest[0]), int(rest[1]), int(rest[2]))
        else:
            told = after_each_commit(root, Path(rest[0]), Path(rest[1]))
    print(json.dumps(told))
