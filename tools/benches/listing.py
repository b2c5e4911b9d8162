"""tools/bench list: all sessions of a database and of one with a tenth of them, beside a plain SELECT and other programs.

A list has of each session its title, project, times and counts. The floor is a SELECT of the same columns of the same rows by
plain SQLite, all fetched.
"""

import argparse
import itertools
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import transcripts
from benches.peers import PEERS, Home, installed, make_home
from benches.resume import SDK, sdk_python
from benches.rivals import Worker
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
    reached,
    seconds,
    tell,
)

GOAL = 0.005  # seconds
PLAIN, OURS, AGAIN, FRESH, THEIRS = "plain", "ours", "again", "fresh", "sdk"
ROWS = {
    PLAIN: "plain SELECT of the sessions and their files",
    OURS: "`Index.sessions()`, asked for the first time",
    AGAIN: "the same again, when nothing was written meanwhile",
    FRESH: "the same again, the freshness scan included",
    THEIRS: f"claude_agent_sdk {SDK}, `list_sessions()`",
}
SDK_WORKER = """
import gc, json, os, sys, time
from claude_agent_sdk import list_sessions
for line in sys.stdin:
    asked = json.loads(line)
    os.environ["CLAUDE_CONFIG_DIR"] = asked["config"]
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(asked["repeats"]):
        given = list_sessions()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([wall / asked["repeats"], cpu / asked["repeats"], len(given)]), flush=True)
"""
GOALS = {OURS: "the first time", AGAIN: "again"}
LISTS = {"embers": ("embers", "--json", "sessions", "--limit", "1000000")}
"""How other programs list all sessions from a database; agentsview does by its server alone."""


class Corpus(NamedTuple):
    """An imported corpus, and a plain connection to its database."""

    root: Path
    size: int
    sessions: int
    index: transcripts.Index
    fresh: transcripts.Index
    plain: sqlite3.Connection


Cell = tuple[str, int]  # row, number of the corpus


def bench_list(args: argparse.Namespace) -> None:
    """Time the list of all sessions."""
    sessions = args.sessions or (200 if args.quick else 2000)
    rounds = args.rounds or (3 if args.quick else 7)
    python = None if args.no_peers or args.quick else sdk_python(None)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        corpora = [made(stack, folder / str(number), number) for number in (max(1, sessions // 10), sessions)]
        sdk = stack.enter_context(Worker(python, SDK_WORKER)) if python else None
        timings = Timings(
            {cell: run for at, corpus in enumerate(corpora) for cell, run in timed(corpus, at, sdk).items()}, rounds, "wall"
        )
        peers = {} if args.no_peers or args.quick else dict(installed({name: PEERS[name] for name in LISTS}))
        homes = [make_home(peer, at, folder / peer.name, corpora[1].root / "projects") for peer, at in peers.items()]
        costs = commands(corpora[1], homes, rounds)
    goals = (f"{name} {seconds(taken := timings.wall((row, 1)))}, {reached(taken <= GOAL)}" for row, name in GOALS.items())
    told = [f"{name} {seconds(costs.wall(name))}" for name in costs.samples]
    notes = [
        f"Wall clock in one process, medians of {rounds} rounds run in turn; {corpora[0].sessions:,} sessions in "
        f"{megabytes(corpora[0].size)} and {corpora[1].sessions:,} in {megabytes(corpora[1].size)}.",
        f"Goal {seconds(GOAL)} for {corpora[1].sessions:,} sessions: {'; '.join(goals)}.",
        f"As commands, whole processes: {'; '.join(told)}.",
        f"`{command_line()}` on {machine(**({'claude_agent_sdk': SDK} if sdk else {}))}.",
    ]
    sys.stdout.write("\n\n".join([table(timings, corpora), *notes]) + "\n")


def made(stack: ExitStack, folder: Path, sessions: int) -> Corpus:
    """Make a corpus of small sessions and import it; the search index is of no use here."""
    root, database = folder / "config", folder / "bench.db"
    numbers = make_corpus(root, f"{sessions * 50}KB", sessions)
    tell("importing it")
    index = stack.enter_context(transcripts.Index.open(database, fresh=False))
    index.sync([root], texts=False)
    fresh = stack.enter_context(transcripts.Index.open(database))
    plain = stack.enter_context(closing(sqlite3.connect(database)))
    return Corpus(root, numbers["bytes"], numbers["sessions"], index, fresh, plain)


def select(plain: sqlite3.Connection) -> str:
    """A SELECT of what a list tells of each session, as far as it stands in a row of the session, its file or its project."""
    told = {field.name for field in fields(transcripts.SessionInfo)}
    columns = ["s.session_id", "p.path"]
    for letter, name in (("s", "sessions"), ("f", "files")):
        columns += [f"{letter}.{row[1]}" for row in plain.execute(f"PRAGMA table_info({name})") if row[1] in told]
    return (
        f"SELECT {', '.join(columns)} FROM sessions AS s JOIN files AS f ON f.id = s.file "
        "JOIN projects AS p ON p.id = s.project ORDER BY s.last_activity_at DESC, s.session_id"
    )


def timed(corpus: Corpus, at: int, sdk: Worker | None) -> dict[Cell, Run]:
    """What is timed of a corpus, in the order of the table."""
    plain, limits = select(corpus.plain), itertools.count(1_000_000)  # another limit is another question: nothing is known of it
    runs: dict[Cell, Run] = {
        (PLAIN, at): here(lambda: corpus.plain.execute(plain).fetchall()),
        (OURS, at): here(lambda: corpus.index.sessions(limit=next(limits))),
        (AGAIN, at): here(corpus.index.sessions),
        (FRESH, at): here(corpus.fresh.sessions),
    }
    if sdk:
        runs[THEIRS, at] = lambda repeats: sdk.ask({"config": str(corpus.root), "repeats": repeats})
    return runs


def commands(corpus: Corpus, homes: list[Home], rounds: int) -> Costs[str]:
    """Run our command and other programs, in turn."""
    costs: Costs[str] = Costs()
    ours = command_of("list", "--json", "--db", corpus.index.path, "--no-sync")
    homes = [home for home in homes if home.imported()]
    for _ in range(rounds):
        costs.add("`transcripts list --json --no-sync`", process(ours))
        for home in homes:
            command = LISTS[home.peer.name]
            costs.add(f"`{' '.join(command[:3])}` ({home.peer.title})", home.run(*command))
    return costs


def table(timings: Timings[Cell], corpora: list[Corpus]) -> str:
    rows = []
    for row, name in ROWS.items():
        if (row, 1) not in timings:
            rows.append([name, *["-"] * 6])
            continue
        times = [seconds(timings.wall((row, at))) for at in (0, 1)]
        growth = f"{timings.ratio((row, 1), (row, 0)):.1f}"
        ours = "" if row == OURS else part(timings.ratio((OURS, 1), (row, 1)))
        rows.append([name, *times, growth, seconds(timings.cpu((row, 1))), ours, f"{timings.count((row, 1)):,}"])
    head = [
        "list", *(f"{corpus.sessions:,} sessions" for corpus in corpora), "growth", "CPU", "ours, as part of it", "given"
    ]  # fmt: skip
    return markdown(head, rows, range(1, len(head)))
