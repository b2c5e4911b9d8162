"""What every measurement is made with: data, timing in turn, whole processes, and telling."""

import gc
import operator
import os
import re
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

SHORTEST = 0.1  # seconds
MOST_REPEATS = 200
K = TypeVar("K")


class Sample(NamedTuple):
    """One measurement: seconds a call, and how many things it gave."""

    wall: float
    cpu: float
    given: int


Run = Callable[[int], Sample]
"""Calls what is measured so many times in a row."""


def here(function: Callable[[], Sequence[Any]], around: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Run:
    """A run inside this process; `around` is entered before the clock starts and left after it has stopped."""

    def run(repeats: int) -> Sample:
        given: Sequence[Any] = ()
        with around():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(repeats):
                given = function()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Sample(wall / repeats, cpu / repeats, len(given))

    return run


class Timings(Generic[K]):
    """The samples of several runs, taken in turn. `clock` (wall or cpu) is what ratios are made of."""

    def __init__(self, runs: dict[K, Run], rounds: int, clock: str) -> None:
        self._clock = clock
        repeats = {key: self._repeats(run) for key, run in runs.items()}
        self.samples: dict[K, list[Sample]] = {key: [] for key in runs}
        for number in range(rounds):
            tell(f"round {number + 1} of {rounds}")
            for key, run in runs.items():
                self.samples[key].append(run(repeats[key]))

    @staticmethod
    def _repeats(run: Run) -> int:
        """How often what was run once, to warm up, is run in a row."""
        return max(1, min(MOST_REPEATS, int(SHORTEST / max(run(1).wall, 1e-6))))

    def __contains__(self, key: K) -> bool:
        return key in self.samples

    def wall(self, key: K) -> float:
        return statistics.median(sample.wall for sample in self.samples[key])

    def cpu(self, key: K) -> float:
        return statistics.median(sample.cpu for sample in self.samples[key])

    def count(self, key: K) -> int:
        return self.samples[key][0].given

    def ratio(self, one: K, other: K) -> float:
        """How long one takes as a part of the other: the median over the rounds."""
        return float(statistics.median(map(operator.truediv, self._times(one), self._times(other))))

    def _times(self, key: K) -> list[float]:
        return [getattr(sample, self._clock) for sample in self.samples[key]]


# -- whole processes -------------------------------------------------------------------------------------------------------


class Spent(NamedTuple):
    """What a process cost with those that it started: seconds, and the peak memory in bytes of the largest of them.

    `begun` is of time.monotonic(). `status` is the exit code, None where it was stopped at its limit; `words` is the end of
    what it wrote to standard error.
    """

    begun: float
    wall: float
    cpu: float
    peak: int
    status: int | None
    words: str


# A small process starts what is measured: the memory of whoever starts a process counts as its own until it has begun.
STARTER = """
import contextlib, json, os, signal, subprocess, sys, threading, time
limit, out, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
begun = time.monotonic()
try:
    with open(out, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, start_new_session=True)
except OSError as error:
    sys.stderr.write(error.strerror)
    print(json.dumps([begun, 0, 0, 0, 127]))
    sys.exit()
late = threading.Event()
def stop():
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
timer = threading.Timer(limit, lambda: (late.set(), stop()))
timer.daemon = True
timer.start()
try:
    _pid, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begun
    timer.cancel()
finally:
    stop()  # and whatever it left running
peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
code = None if late.is_set() else os.waitstatus_to_exitcode(status)
print(json.dumps([begun, wall, used.ru_utime + used.ru_stime, peak, code]))
"""


def process(
    command: Sequence[str | Path],
    environ: Mapping[str, str] | None = None,
    limit: float = 3600,
    out: Path | None = None,
    beside: Callable[[], None] | None = None,
    pause: float = 0.02,
) -> Spent:
    """Run a command to its end, or `limit` seconds, its output into a file; what it cost.

    `beside` is called while it runs, with pauses of so many seconds.
    """
    words = [sys.executable, "-I", "-S", "-c", STARTER, str(limit), str(out or os.devnull), *map(str, command)]
    with tempfile.TemporaryFile() as errors:
        starter = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=errors)
        while beside is not None and starter.poll() is None:
            beside()
            time.sleep(pause)
        told, _ = starter.communicate()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
        last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    begun, wall, cpu, peak, status = orjson.loads(told)
    return Spent(begun, wall, cpu, peak, status, last)


class Costs(Generic[K]):
    """What several processes cost, run in turn, a sample a round; what ran in fewer rounds is compared in those."""

    def __init__(self) -> None:
        self.samples: dict[K, list[Spent]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self.samples

    def add(self, key: K, spent: Spent) -> None:
        self.samples.setdefault(key, []).append(spent)

    def wall(self, key: K) -> float:
        return statistics.median(spent.wall for spent in self.samples[key])

    def cpu(self, key: K) -> float:
        return statistics.median(spent.cpu for spent in self.samples[key])

    def peak(self, key: K) -> float:
        return statistics.median(spent.peak for spent in self.samples[key])

    def ratio(self, one: K, other: K) -> float:
        """The wall clock of one as a part of the other's: the median over the rounds that both were in."""
        pairs = zip(self.samples[one], self.samples[other], strict=False)
        return statistics.median(mine.wall / theirs.wall for mine, theirs in pairs)

    def more(self, one: K, other: K) -> float:
        """How many seconds one takes more than the other: the median over the rounds that both were in."""
        pairs = zip(self.samples[one], self.samples[other], strict=False)
        return statistics.median(mine.wall - theirs.wall for mine, theirs in pairs)


def command_of(*words: str | Path) -> list[str]:
    """Our command line, run by this Python."""
    return [sys.executable, "-c", "from transcripts.interfaces.cli import main; main()", *map(str, words)]


def stored(database: Path) -> int:
    """The bytes of a database with what lies beside it."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))


# -- data ------------------------------------------------------------------------------------------------------------------


def make_corpus(root: Path, size: str, files: int | None = None) -> dict[str, int]:
    """Write a config folder of so many bytes; the numbers of its files, bytes, entries and sessions."""
    tell(f"making {size}")
    tool = Path(__file__).parent.with_name("make_corpus")
    options = ["--size", size, *(["--files", str(files)] if files else [])]
    run = subprocess.run([sys.executable, tool, root, *options], check=True, stdout=subprocess.PIPE)
    return dict(orjson.loads(run.stdout))


def tenth_and_whole(size: str) -> tuple[str, str]:
    """A size with its unit, behind a tenth of it: 2MB, 20MB."""
    found = re.fullmatch(r"(\d+)([KMG])B", size.upper())
    if found is None:
        raise SystemExit(f"{size!r} is no size such as 500KB, 20MB or 1GB")
    number, unit = int(found[1]) * 1000, {"K": "", "M": "K", "G": "M"}[found[2]]
    return f"{number // 10}{unit}B", f"{number}{unit}B"


# -- telling ---------------------------------------------------------------------------------------------------------------


def tell(words: str) -> None:
    """Progress, for whoever waits."""
    sys.stderr.write(f"{words}\n")


def machine(**more: str) -> str:
    """What the times hang on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {"SQLite": sqlite3.sqlite_version, "orjson": orjson.__version__, "transcripts": version("transcripts")} | more
    told = [f"{cores} cores", f"Python {sys.version.split()[0]}", *(f"{name} {number}" for name, number in versions.items())]
    return ", ".join(told)


def command_line() -> str:
    """How this was called; of paths only the last part."""
    return shlex.join(["tools/bench", *(Path(word).name if os.sep in word else word for word in sys.argv[1:])])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: range) -> str:
    """A Markdown table; the columns of these numbers stand to the right."""
    rule = ["---:" if at in numbers else "---" for at in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *rows])


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.1 else f"{value * 1000:.{1 if value >= 0.01 else 2}f} ms"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"


def reached(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def part(ratio: float) -> str:
    """A ratio as people say it: 1/3.4, or 1.2."""
    if ratio > 0.95:
        return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"1/{1 / ratio:.1f}" if ratio > 0.1 else f"1/{1 / ratio:.0f}"
