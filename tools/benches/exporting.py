"""tools/bench export: transcripts out of the database, beside reading and copying the files, and beside other programs.

All transcripts of a corpus one after another, each into a new file; what was written is compared once with the originals. Ours
syncs each file to the disk, copies do not. The largest transcript alone is exported by commands, as whole processes.
"""

import argparse
import filecmp
import io
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import transcripts
from benches.peers import PEERS, Home, installed, make_home
from benches.timing import (
    Costs,
    Run,
    Timings,
    command_line,
    command_of,
    here,
    machine,
    make_corpus,
    markdown,
    megabytes,
    part,
    process,
    seconds,
    tell,
    tenth_and_whole,
)

READ, COPY, BYTES, FILES = "read", "copy", "bytes", "files"
ROWS = {
    READ: "reading the files",
    COPY: "copying the files",
    BYTES: "`Index.export` into memory",
    FILES: "`Index.export` into new files, each synced to the disk",
}
OURS = "`transcripts export`"


def exports(path: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """How other programs give one transcript, and what they give."""
    return {
        "agentsview": (("agentsview", "session", "export", path.stem), "the file itself, while it is there"),
        "embers": (("embers", "--json", "session", path.stem, "--full"), "its texts as JSON"),
        "claude-code-log": (("claude-code-log", str(path), "-f", "md", "-o", "-"), "Markdown"),
    }


class Corpus(NamedTuple):
    """An imported corpus, and its transcripts, the smallest first."""

    root: Path
    size: int  # of the transcripts
    index: transcripts.Index
    paths: list[Path]


Cell = tuple[str, int]  # row, number of the corpus


def bench_export(args: argparse.Namespace) -> None:
    """Time exports of all transcripts, and of the largest by commands."""
    sizes = tenth_and_whole(args.size or ("20MB" if args.quick else "200MB"))
    rounds = args.rounds or (3 if args.quick else 7)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        corpora = [made(stack, folder / size, size) for size in sizes]
        for corpus in corpora:
            check(corpus, folder / "checked")
        runs = {cell: run for at, corpus in enumerate(corpora) for cell, run in timed(corpus, at, folder / "out").items()}
        timings = Timings(runs, rounds, "wall")
        largest = corpora[1].paths[-1]
        given = exports(largest)
        peers = {} if args.no_peers or args.quick else dict(installed({name: PEERS[name] for name in given}))
        homes = [
            only_with(largest, make_home(peer, at, folder / peer.name, corpora[1].root / "projects"))
            for peer, at in peers.items()
        ]
        costs, told = commands(corpora[1], homes, rounds, folder)
        size = largest.stat().st_size
    notes = [
        f"Wall clock in one process, medians of {rounds} rounds run in turn, files in the page cache. "
        f"{'; '.join(f'{len(corpus.paths):,} transcripts, {megabytes(corpus.size)}' for corpus in corpora)}. Every export was "
        "the same bytes as its file.",
        f"Commands, whole processes, for the largest transcript ({megabytes(size)}).",
        f"`{command_line()}` on {machine()}.",
    ]
    tables = [table(timings, corpora), command_table(costs, told)]
    sys.stdout.write("\n\n".join([*tables, *notes]) + "\n")


def made(stack: ExitStack, folder: Path, size: str) -> Corpus:
    """Make a corpus and import it; the search index is of no use here."""
    make_corpus(folder / "config", size)
    tell("importing it")
    index = stack.enter_context(transcripts.Index.open(folder / "bench.db", fresh=False))
    index.sync([folder / "config"], texts=False)
    paths = sorted((folder / "config").glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    return Corpus(folder / "config", sum(path.stat().st_size for path in paths), index, paths)


def check(corpus: Corpus, folder: Path) -> None:
    """That exports are the files, byte for byte."""
    for at, path in enumerate(corpus.paths):
        out = folder / str(at)
        corpus.index.export(str(path), out)
        if not filecmp.cmp(path, out, shallow=False):
            raise SystemExit("an export is not the same as its file; there is nothing to compare")
    shutil.rmtree(folder)


# -- in one process --------------------------------------------------------------------------------------------------------


def timed(corpus: Corpus, at: int, out: Path) -> dict[Cell, Run]:
    """What is timed of a corpus, in the order of the table."""

    def into_memory(path: Path) -> int:
        out = io.BytesIO()
        corpus.index.export(str(path), out)
        return out.tell()

    return {
        (READ, at): here(lambda: [len(path.read_bytes()) for path in corpus.paths]),
        (COPY, at): here(into_files(corpus, out, shutil.copyfile)),
        (BYTES, at): here(lambda: [into_memory(path) for path in corpus.paths]),
        (FILES, at): here(into_files(corpus, out, lambda path, new: corpus.index.export(str(path), new))),
    }


def into_files(corpus: Corpus, out: Path, call: Callable[[Path, Path], object]) -> Callable[[], Sequence[object]]:
    """Give each transcript a new file, in a new folder each time."""
    numbers = itertools.count()

    def run() -> Sequence[object]:
        shutil.rmtree(out, ignore_errors=True)  # on the clock of both: a repeated run must not write over
        folder = out / str(next(numbers))
        folder.mkdir(parents=True)
        return [call(path, folder / str(number)) for number, path in enumerate(corpus.paths)]

    return run


def table(timings: Timings[Cell], corpora: list[Corpus]) -> str:
    rows = []
    for row, name in ROWS.items():
        times = [timings.wall((row, at)) for at in (0, 1)]
        cells = [*map(seconds, times), f"{times[1] / times[0]:.1f}", seconds(timings.cpu((row, 1)))]
        parts = ["" if row == base else f"{timings.ratio((row, 1), (base, 1)):.1f}" for base in (READ, COPY)]
        rows.append([name, *cells, f"{corpora[1].size / times[1] / 1e6:,.0f} MB/s", *parts])
    sizes = [megabytes(corpus.size) for corpus in corpora]
    head = ["all transcripts", *sizes, "growth", "CPU", "speed", "times reading", "times copying"]
    return markdown(head, rows, range(1, len(head)))


# -- as commands -----------------------------------------------------------------------------------------------------------


def only_with(path: Path, home: Home) -> Home:
    """A HOME in which only this session is left: what a program gives of it hangs on it alone."""
    for other in home.folder.glob(".claude/projects/*/*"):
        if path.stem not in other.name:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return home


def commands(corpus: Corpus, homes: list[Home], rounds: int, folder: Path) -> tuple[Costs[str], dict[str, str]]:
    """Run our command, a copy, and other programs, in turn; and what each gives."""
    path, out = corpus.paths[-1], folder / "copy"
    costs: Costs[str] = Costs()
    told = {"`cp`": "the file", OURS: "the file, also when it is gone"}
    homes = [home for home in homes if home.imported()]
    ours = command_of("export", path, "--db", corpus.index.path, "--no-sync")
    for _ in range(rounds):
        costs.add("`cp`", process(["cp", path, out]))
        costs.add(OURS, process(ours, out=out))
        if not filecmp.cmp(path, out, shallow=False):
            raise SystemExit("an export is not the same as its file; there is nothing to compare")
        for home in homes:
            command, given = exports(home.folder / ".claude" / "projects" / path.relative_to(corpus.root / "projects"))[
                home.peer.name
            ]
            spent = home.run(*command, out=out)
            if spent.status == 0 and out.stat().st_size > 0:
                told[home.peer.title] = given
                costs.add(home.peer.title, spent)
            else:
                tell(f"{home.peer.title} gave nothing: {spent.words[:200]}")
    return costs, told


def command_table(costs: Costs[str], told: dict[str, str]) -> str:
    rows = [
        [who, seconds(costs.wall(who)), seconds(costs.cpu(who)), megabytes(costs.peak(who)),
         "" if who == OURS else part(costs.ratio(OURS, who)), given]
        for who, given in told.items()
    ]  # fmt: skip
    head = ["one transcript, by commands", "wall", "CPU", "peak memory", "ours, as part of it", "what it gives"]
    return markdown(head, rows, range(1, len(head) - 1))
