"""Stores that are processes of their own: run as a program by test_interfaces_session_store.py.

python -m tests.storing append ROOT DATABASE       append the batches that standard input lists, to the session that each names
python -m tests.storing within ROOT DATABASE       append the batch, and be killed when half of its bytes are written
python -m tests.storing between ROOT DATABASE      append the batch, and be killed before it is imported
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from transcripts.files import writer
from transcripts.interfaces.session_store import TranscriptStore
from transcripts.sessions import storing


def kill(*_args: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(descriptor: int, data: bytes, *_rest: Any) -> None:
    os.write(descriptor, data[: len(data) // 2])
    kill()


async def append(root: str, database: str) -> None:
    store = TranscriptStore(root, database)
    for line in sys.stdin:
        key, entries = json.loads(line)
        await store.append(key, entries)


if __name__ == "__main__":
    mode, root, database = sys.argv[1:]
    if mode == "within":
        setattr(writer, "_write", half)  # noqa: B010
    elif mode == "between":
        setattr(storing, "import_file", kill)  # noqa: B010
    asyncio.run(append(root, database))
