"""Pure functions in processes of their own, so that a large import uses more than one core.

Invariants:
- Where no process can be started, or one ends, the same function is called here: the answer is the same.
- A process gets what it works on by its standard input, opens no file and no database, and ends when that is closed.
- Not by `multiprocessing`: that runs the main module of the program again, which a library cannot ask for, or forks a process
  that may have threads.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock, Thread
from typing import Any, Self, TypeVar

WORTH = 8 * 1024 * 1024  # bytes from which on starting a process (a tenth of a second) pays
_MOST = 4
_SIZE = 8  # bytes that tell the length of a message
_START = "import sys; sys.path[:] = sys.argv[1:]; from transcripts.index.apart import serve; serve()"
T = TypeVar("T")

class Apart:
    """Some processes, or none: then all is done here, when the answer is asked for. To be used in a `with`."""

    def __init__(self, size: int) -> None:
        """For work on so many bytes."""
        self.processes: int = min(_MOST, _cores() - 1) if size >= WORTH and sys.executable else 0
        self._asked: SimpleQueue[tuple[bytes, Future[bytes]] | None] = SimpleQueue()
        self._lock = Lock()
        self._alive = self.processes
        self._started: list[Popen[bytes]] = []
        for _ in range(self.processes):
            Thread(target=self._tend, name="transcripts-apart", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            for process in self._started:
                process.kill()  # it holds nothing that could be lost
        for _ in range(self.processes):
            self._asked.put(None)

    def submit(self, function: Callable[..., T], *given: Any) -> Callable[[], T]:
        """Begin a call of a function at the top of a module; what is returned waits for its answer."""
        request = pickle.dumps((function, given), pickle.HIGHEST_PROTOCOL) if self.processes else b""
        with self._lock:
            if not self._alive:
                return partial(function, *given)
            answer: Future[bytes] = Future()
            self._asked.put((request, answer))
        return partial(_answered, answer, request)

    def map(self, function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        """The answers for all items, in order; some items are taken ahead."""
        ahead: deque[Callable[[], T]] = deque()
        for item in items:
            ahead.append(self.submit(function, item))
            if len(ahead) > 2 * self.processes:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()

    def _tend(self) -> None:
        """Run a process: a thread for each, that waits for it."""
        answer: Future[bytes] | None = None
        try:
            with Popen([sys.executable, "-c", _START, *sys.path], stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
                assert process.stdin and process.stdout
                with self._lock:
                    self._started.append(process)
                while (asked := self._asked.get()) is not None:
                    request, answer = asked
                    _send(process.stdin.fileno(), request)
                    answer.set_result(_received(process.stdout.fileno()))
        except (OSError, EOFError):
            if answer is not None and not answer.done():
                answer.set_result(b"")
        finally:
            with self._lock:
                self._alive -= 1
                while not self._alive and not self._asked.empty():
                    if (asked := self._asked.get()) is not None:
                        asked[1].set_result(b"")


def _answered(answer: Future[bytes], request: bytes) -> Any:
    if data := answer.result():
        return pickle.loads(data)  # noqa: S301  from a process that was started here
    function, given = pickle.loads(request)  # noqa: S301  made here
    return function(*given)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _send(to: int, data: bytes) -> None:
    for part in (len(data).to_bytes(_SIZE, "big"), data):
        left = memoryview(part)
        while left:
            left = left[os.write(to, left) :]


def _received(source: int) -> bytes:
    return _whole(source, int.from_bytes(_whole(source, _SIZE), "big"))


def _whole(source: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(source, size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def serve() -> None:
    """What such a process does, until its standard input is closed; an empty answer is a call that raised."""
    gc.disable()  # records have no cycles, and looking for them takes a tenth of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks stops, and then this
    while True:
        try:
            function, given = pickle.loads(_received(0))  # noqa: S301  from the process that started this one
        except EOFError:
            return
        try:
            answer = pickle.dumps(function(*given), pickle.HIGHEST_PROTOCOL)
        except Exception:
            answer = b""
        _send(1, answer)
