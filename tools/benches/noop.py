"""tools/bench noop: what it costs that nothing is new, or one line: in one process, and as commands beside other programs.

Two corpora of as many sessions, one with up to ten times the bytes: the work is to grow with the files that are looked at, and
with nothing else.
"""

import argparse
import gc
import itertools
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import orjson

import transcripts
from benches.peers import PEERS, Home, installed, make_home
from benches.timing import (
    Costs,
    Run,
    Sample,
    Timings,
    command_line,
    command_of,
    here,
    machine,
    make_corpus,
    markdown,
    megabytes,
    process,
    reached,
    seconds,
    tell,
    tenth_and_whole,
)

NOTHING, ONE, KNOWN, SEARCHABLE, COMMAND = 2.5, 3, 0.005, 0.150, 0.060  # the goals: times the scan, and seconds
SCAN, SAME, FOUND, PATH, LONGEST, SEARCH = "scan", "same", "found", "path", "longest", "search"
ROWS = {
    SCAN: "a bare scandir, and stat of each file",
    SAME: "sync, nothing to do",
    FOUND: "sync, one line appended to a transcript",
    PATH: "sync of that path, one line appended",
    LONGEST: "the same, of the longest transcript",
    SEARCH: "the same, and a search that finds the line",
}
IMPORTS, OURS = "imports", "transcripts"


class Corpus(NamedTuple):
    """An imported corpus, and its transcripts that end in a whole line: the longest last."""

    root: Path
    size: int
    files: int
    index: transcripts.Index
    paths: list[Path]


Cell = tuple[str, int]  # row, number of the corpus


def bench_noop(args: argparse.Namespace) -> None:
    """Time syncs with nothing to do, and with one line to find."""
    sizes = tenth_and_whole(args.size or ("20MB" if args.quick else "1000MB"))
    sessions = args.sessions or (200 if args.quick else 2000)
    rounds = args.rounds or (3 if args.quick else 7)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands are compiled once, as where the package is installed
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        corpora = [made(stack, folder / size, size, sessions) for size in sizes]
        runs = {cell: run for at, corpus in enumerate(corpora) for cell, run in timed(corpus, at).items()}
        timings = Timings(runs, rounds, "wall")
        peers = {} if args.no_peers or args.quick else dict(installed(PEERS))
        homes = [
            make_home(peer, at, folder / peer.name, corpora[0].root / "projects") for peer, at in peers.items() if peer.again
        ]
        costs = commands(corpora, homes, rounds)
    told = [megabytes(corpus.size) for corpus in corpora]
    notes = [
        f"{sessions:,} sessions in both: {told[0]} in {corpora[0].files:,} files, {told[1]} in {corpora[1].files:,}. Wall clock, "
        f"medians of {rounds} rounds run in turn. The search index is brought up to date within each of these.",
        "Commands are whole processes, from start to end. Other programs ran on the smaller corpus, where they had imported "
        "all before; ccusage keeps nothing and reads all anew.",
        f"`{command_line()}` on {machine()}.",
    ]
    sys.stdout.write("\n\n".join([work_table(timings, told), command_table(costs, told), *notes]) + "\n")


def made(stack: ExitStack, folder: Path, size: str, sessions: int) -> Corpus:
    """Make a corpus and import it."""
    root = folder / "config"
    numbers = make_corpus(root, size, sessions)
    tell("importing it")
    index = stack.enter_context(transcripts.Index.open(folder / "bench.db", fresh=False))
    index.sync([root])
    paths = sorted(root.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    return Corpus(root, numbers["bytes"], numbers["files"], index, [path for path in paths if ends_whole(path)])


def ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def append(path: Path, word: str = "again") -> None:
    """Append a prompt."""
    record: dict[str, Any] = {
        "parentUuid": None, "isSidechain": False, "type": "user", "uuid": str(uuid.uuid4()), "sessionId": path.stem,
        "timestamp": "2026-03-09T10:00:00.000Z", "cwd": "/home/dev/orchard", "version": "2.1.332",
        "message": {"role": "user", "content": f"look at {word} please"},
    }  # fmt: skip
    with path.open("ab") as file:
        file.write(orjson.dumps(record) + b"\n")


# -- in one process --------------------------------------------------------------------------------------------------------


def timed(corpus: Corpus, at: int) -> dict[Cell, Run]:
    """What is timed of a corpus, in the order of the table."""
    index, projects = corpus.index, corpus.root / "projects"
    some, longest = itertools.cycle(corpus.paths[:-1] or corpus.paths), itertools.repeat(corpus.paths[-1])

    def searched(path: Path, word: str) -> None:
        index.sync([path])
        if not index.search(word, limit=1).hits:
            raise SystemExit("an appended line is not found; there is nothing to compare")

    return {
        (SCAN, at): here(lambda: list(looked_at(str(projects)))),
        (SAME, at): here(lambda: [index.sync()]),
        (FOUND, at): appended(some, lambda _path, _word: index.sync()),
        (PATH, at): appended(some, lambda path, _word: index.sync([path])),
        (LONGEST, at): appended(longest, lambda path, _word: index.sync([path])),
        (SEARCH, at): appended(some, searched),
    }


def looked_at(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """All files below a folder, with what stat tells of them."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from looked_at(entry.path)
            else:
                yield entry.path, entry.stat()


def appended(paths: Iterator[Path], call: Callable[[Path, str], object]) -> Run:
    """A run that appends a line with a word of its own to the next file, off the clock, before each call."""

    def run(repeats: int) -> Sample:
        wall = cpu = 0.0
        gc.collect()
        for _ in range(repeats):
            path, word = next(paths), f"zq{uuid.uuid4().hex}"
            append(path, word)
            begun, used = time.perf_counter(), time.process_time()
            call(path, word)
            wall, cpu = wall + time.perf_counter() - begun, cpu + time.process_time() - used
        return Sample(wall / repeats, cpu / repeats, 1)

    return run


def work_table(timings: Timings[Cell], sizes: list[str]) -> str:
    limits = {SAME: NOTHING, FOUND: ONE}
    longest = {PATH: KNOWN, LONGEST: KNOWN, SEARCH: SEARCHABLE}
    rows = []
    for row, name in ROWS.items():
        times = [timings.wall((row, at)) for at in (0, 1)]
        ratios = [timings.ratio((row, at), (SCAN, at)) for at in (0, 1)]
        goal = ""
        if row in limits:
            goal = f"≤ {limits[row]} times the scan: {reached(max(ratios) <= limits[row])}"
        elif row in longest:
            goal = f"≤ {longest[row] * 1000:.0f} ms: {reached(max(times) <= longest[row])}"
        cpu = seconds(timings.cpu((row, 1)))
        rows.append([name, *map(seconds, times), cpu, *("" if row == SCAN else f"{ratio:.1f}" for ratio in ratios), goal])
    head = ["in one process", *sizes, f"CPU at {sizes[1]}", *(f"times the scan at {size}" for size in sizes), "goal"]
    return markdown(head, rows, range(1, len(head) - 1))


# -- as commands -----------------------------------------------------------------------------------------------------------

Command = tuple[str, str, int]  # who, with nothing to do or one line appended, number of the corpus


def commands(corpora: list[Corpus], homes: list[Home], rounds: int) -> Costs[Command]:
    """Run our command, what it has to load at least, and the other programs, in turn."""
    costs: Costs[Command] = Costs()
    homes = [home for home in homes if home.imported()]
    ours = [command_of("sync", corpus.root, "--db", corpus.index.path) for corpus in corpora]
    load = [sys.executable, "-c", "import click, sqlalchemy"]
    for command in (*ours, load):
        process(command)
    for number in range(rounds):
        tell(f"commands, round {number + 1} of {rounds}")
        for row in (SAME, FOUND):
            for at, command in enumerate(ours):
                if row == FOUND:
                    append(corpora[at].paths[number % len(corpora[at].paths)])
                costs.add((IMPORTS, row, at), process(load))
                costs.add((OURS, row, at), process(command))
            for home in homes:
                before, spent = home.given(), home.run()
                if row == SAME or home.peer.leaves_out is not None or home.given() > before:
                    costs.add((home.peer.name, row, 0), spent)
                else:
                    tell(f"{home.peer.title} has not found the line")
    return costs


def command_table(costs: Costs[Command], sizes: list[str]) -> str:
    rows = []
    names = {IMPORTS: "`python -c 'import click, sqlalchemy'`", OURS: "`transcripts sync`"}
    names |= {peer.name: f"`{' '.join(peer.command)}` ({peer.title})" for peer in PEERS.values() if peer.again}
    for who, name in names.items():
        cells = [(who, row, at) for row in (SAME, FOUND) for at in (0, 1)]
        told = [seconds(costs.wall(cell)) if cell in costs else "-" for cell in cells]
        cpu, goal = "-", ""
        if cells[0] in costs:
            cpu = seconds(costs.cpu(cells[0]))
        if who == OURS:
            more = max(costs.more((OURS, SAME, at), (IMPORTS, SAME, at)) for at in (0, 1))
            goal = f"≤ {COMMAND * 1000:.0f} ms over the imports: {seconds(more)}, {reached(more <= COMMAND)}"
        rows.append([name, *told, cpu, goal])
    head = ["command", *(f"{what} at {size}" for what in ("nothing to do", "one line") for size in sizes)]
    return markdown([*head, f"CPU, nothing to do at {sizes[0]}", "goal"], rows, range(1, len(head) + 1))
