"""Writers that are processes of their own: run as a program by the tests of the writing side.

python -m tests.writing append PATH NAME COUNT        append COUNT entries of many sizes, one by one, marked with NAME
python -m tests.writing record DATABASE SESSION       record the messages that standard input lists, one by one
python -m tests.writing full PATH LIMIT               append an entry that is too large for a file of LIMIT bytes
python -m tests.writing hold PATH                     hold the lock until killed
python -m tests.writing killed DATABASE SESSION       give a title, and be killed between the line and its import
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

from transcripts.api import Index
from transcripts.errors import NotWritten
from transcripts.files import writer
from transcripts.sessions import mutations


def append(path: str, name: str, count: int) -> None:
    for number in range(count):
        writer.append(path, [{"type": "x", "writer": name, "number": number, "words": name * (number * 997 % 70_000)}])


def record(database: str, session: str) -> None:
    with Index.open(database) as index:
        for line in sys.stdin:
            index.record(session, [json.loads(line)])


def full(path: str, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        writer.append(path, [{"type": "x", "words": "word " * limit}])
    except NotWritten as error:
        print(error)


def hold(path: str) -> None:
    with writer.locked(path):
        print("held", flush=True)
        time.sleep(600)


def killed(database: str, session: str) -> None:
    setattr(mutations, "import_written", lambda *_args: os.kill(os.getpid(), signal.SIGKILL))  # noqa: B010
    with Index.open(database) as index:
        index.rename(session, "A title that is not imported")


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "append":
        append(rest[0], rest[1], int(rest[2]))
    elif mode == "record":
        record(*rest)
    elif mode == "full":
        full(rest[0], int(rest[1]))
    elif mode == "hold":
        hold(*rest)
    else:
        killed(*rest)
