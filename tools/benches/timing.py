"""What every measurement is made with: timing in turn, and telling."""

import gc
import operator
import os
import shlex
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Sequence
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


def part(ratio: float) -> str:
    """A ratio as people say it: 1/3.4, or 1.2."""
    if ratio > 0.95:
        return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"1/{1 / ratio:.1f}" if ratio > 0.1 else f"1/{1 / ratio:.0f}"
