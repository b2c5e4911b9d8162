"""Pure functions in processes of their own, so that a large import uses more than one core.

Invariants:
- Where no process can be started, or one ends, the same function is called here: the answer is the same.
- No answer is waited for that no process has begun: what cannot be started, or never comes to itself, holds nobody up.
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
from contextlib import suppress
from functools import partial
from subprocess import DEVNULL, PIPE, Popen
from threading import Condition, Thread
from typing import Any, Self, TypeVar

WORTH = 8 * 1024 * 1024  # bytes from which on starting a process (a tenth of a second) pays
_MOST = 4
_SIZE = 8  # bytes that tell the length of a message
_START = "import sys; sys.path[:] = sys.argv[1:]; from transcripts.index.apart import serve; serve()"
_HELLO = b"transcripts\n"  # what a process says first: another program that was started says something else, or nothing
T = TypeVar("T")


class _Call:
    """A call on its way: what is sent, and what will come back; an empty answer is none."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.answer: Future[bytes | bytearray] = Future()


class Apart:
    """Some processes, or none: then all is done here, when the answer is asked for. To be used in a `with`."""

    def __init__(self, size: int) -> None:
        """For work on so many bytes."""
        self.processes: int = min(_MOST, _cores() - 1) if size >= WORTH and _is_python() else 0
        self._asked: deque[_Call] = deque()
        self._changed = Condition()
        self._tended = self.processes
        self._ended = False
        self._started: list[Popen[bytes]] = []
        self._threads = [Thread(target=self._tend, name="transcripts-apart", daemon=True) for _ in range(self.processes)]
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError:  # too many, or the interpreter is about to end
                with self._changed:
                    self._tended -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            for process in self._started:
                process.kill()  # it holds nothing that could be lost
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def submit(self, function: Callable[..., T], *given: Any) -> Callable[[], T]:
        """Begin a call of a function at the top of a module; what is returned waits for its answer."""
        if not self._tended:
            return partial(function, *given)
        call = _Call(pickle.dumps((function, given), pickle.HIGHEST_PROTOCOL))
        with self._changed:
            self._asked.append(call)
            self._changed.notify()
        return partial(self._answered, call)

    def map(self, function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        """The answers for all items, in order; some items are taken ahead."""
        ahead: deque[Callable[[], T]] = deque()
        for item in items:
            ahead.append(self.submit(function, item))
            if len(ahead) > 2 * self.processes:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()

    def _answered(self, call: _Call) -> Any:
        with self._changed:
            if is_left := call in self._asked:  # no process has come to it: they are busy, or there is none
                self._asked.remove(call)
        data = b"" if is_left else call.answer.result()
        if data:
            return pickle.loads(data)  # noqa: S301  from a process that was started here
        function, given = pickle.loads(call.request)  # noqa: S301  made here
        return function(*given)

    def _tend(self) -> None:
        """Run a process: a thread for each, that waits for it."""
        try:
            with Popen([sys.executable, "-c", _START, *sys.path], stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
                assert process.stdin and process.stdout
                with self._changed:
                    self._started.append(process)
                    if self._ended:
                        process.kill()
                try:
                    if _whole(process.stdout.fileno(), len(_HELLO)) == _HELLO:
                        while (call := self._next()) is not None:
                            _fulfil(call, process.stdin.fileno(), process.stdout.fileno())
                            del call  # its bytes are not held while the next is waited for
                finally:
                    process.kill()
        except Exception:  # whatever it is, what is asked for is done by who asks
            return
        finally:
            with self._changed:
                self._tended -= 1

    def _next(self) -> _Call | None:
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._ended)
            return None if self._ended else self._asked.popleft()


def _fulfil(call: _Call, to: int, source: int) -> None:
    answer: bytes | bytearray = b""
    try:
        _send(to, call.request)
        answer = _received(source)
    finally:
        call.answer.set_result(answer)


def _is_python() -> bool:
    """Whether the program that runs can be started as Python: a frozen one would begin itself anew."""
    return bool(sys.executable) and not hasattr(sys, "frozen")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _send(to: int, data: bytes) -> None:
    for part in (len(data).to_bytes(_SIZE, "big"), data):
        left = memoryview(part)
        while left:
            left = left[os.write(to, left) :]


def _received(source: int) -> bytearray:
    return _whole(source, int.from_bytes(_whole(source, _SIZE), "big"))


def _whole(source: int, size: int) -> bytearray:
    data = bytearray(size)
    left = memoryview(data)
    while left:
        count = os.readv(source, [left])
        if not count:
            raise EOFError
        left = left[count:]
    return data


def serve() -> None:
    """What such a process does, until its standard input is closed; an empty answer is a call that raised."""
    gc.disable()  # records have no cycles, and looking for them takes a tenth of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks stops, and then this
    with suppress(EOFError, BrokenPipeError):
        os.write(1, _HELLO)
        while True:
            _send(1, _called(_received(0)))


def _called(request: bytearray) -> bytes:
    try:
        function, given = pickle.loads(request)  # noqa: S301  from the process that started this one
        del request  # as large as what it holds
        return pickle.dumps(function(*given), pickle.HIGHEST_PROTOCOL)
    except Exception:
        return b""
