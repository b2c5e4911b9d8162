"""tools/bench append: entries through the Agent SDK's store, against the same lines appended plainly; both synced to the disk."""

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import orjson

import transcripts
from benches.timing import command_line, machine, markdown, part, seconds, tell
from transcripts.index.schema import SEARCH_SQL
from transcripts.index.text import Place as TextPlace
from transcripts.index.text import texts

BATCHES = (1, 100)
MORE, TIMES = 0.005, 2  # the goals: seconds more for one entry, times the plain append for a batch
PLAIN, FTS = "plainly", "FTS5 alone"
WORDS = "the report of Monday is empty because the week begins on Sunday where its dates are compared with those of the store "
Record = dict[str, Any]


class Place(NamedTuple):
    """Where entries go, as the table names it, how a batch gets there, and what is made of it off the clock."""

    name: str
    append: Callable[[Any], None]
    prepared: Callable[[list[Record]], Any] = lambda some: some


def bench_append(args: argparse.Namespace) -> None:
    """Time appends of one entry and of a hundred to an empty database and to a large one, and to a long session."""
    try:
        from transcripts.interfaces.held import close_held
        from transcripts.interfaces.session_store import TranscriptStore
    except ImportError:
        raise SystemExit("this needs claude-agent-sdk beside the package; run: pip install 'transcripts[sdk]'") from None
    rounds = args.rounds or (20 if args.quick else 200)
    with tempfile.TemporaryDirectory(prefix="transcripts-bench-") as name, asyncio.Runner() as runner:
        folder = Path(name)
        size = args.size or ("20MB" if args.quick else "1000MB")
        imported = fill(folder / "large.db", folder / "corpus", size)

        def stored(database: str, entries: int) -> Callable[[list[Record]], None]:
            store = TranscriptStore(folder / database / "projects", folder / f"{database}.db")
            key: Any = {"project_key": "-home-dev-orchard", "session_id": str(uuid.uuid4())}

            def append(some: list[Record]) -> None:
                runner.run(store.append(key, some))  # type: ignore[arg-type]  # records are what the SDK calls entries

            for _ in range(entries // 100):
                append(made(100))
            return append

        long = 1000 if args.quick else 20_000
        tell(f"writing a session of {long:,} entries")
        places = [
            Place(PLAIN, lambda some: plain(folder / "plain.jsonl", some)),
            Place(FTS, fts(folder / "fts.db"), texts_of),
            Place("an empty database", stored("empty", 0)),
            Place(f"one of {imported / 1e6:,.0f} MB", stored("large", 0)),
            Place(f"there, a session of {long:,}", stored("large", long)),
        ]
        in_turn(places, BATCHES[0], 3)  # so that all is loaded
        times = {cell: found for batch in BATCHES for cell, found in in_turn(places, batch, rounds).items()}
        close_held()
    notes = [
        f"Wall clock, medians of {rounds} appends each, taken in turn. When a call ends the file is synced to the disk, and "
        "rows, search and the summary of the session are there. Plainly: the same entries as JSON, one write, one sync. "
        f"Entries are messages of {len(json.dumps(made(1)[0])):,} bytes. FTS5 alone: their texts, prepared off "
        "the clock, into a table like ours that is empty at first, a transaction a batch, not synced.",
        f"`{command_line()}` on {machine(claude_agent_sdk=version('claude-agent-sdk'))}.",
    ]
    sys.stdout.write("\n\n".join([table(places, times), *notes]) + "\n")


def fill(database: Path, folder: Path, size: str) -> int:
    """Make a database of a corpus; the bytes of its transcripts."""
    tell(f"making and importing {size}")
    tool = Path(__file__).parent.with_name("make_corpus")
    subprocess.run([sys.executable, tool, folder, "--size", size], check=True, stdout=subprocess.PIPE)
    with transcripts.Index.open(database, fresh=False) as index:
        return index.sync([folder]).bytes


def made(number: int) -> list[Record]:
    """New messages, each hanging on the one before."""
    found: list[Record] = []
    for at in range(number):
        own = str(uuid.uuid4())
        kind = ("user", "assistant")[at % 2]
        message: Record = {"role": kind, "content": [{"type": "text", "text": WORDS * 5}]}
        if kind == "assistant":
            message |= {"id": f"msg_{own}", "model": "claude-opus-5", "usage": {"input_tokens": 9, "output_tokens": 99}}
        found.append({
            "parentUuid": found[-1]["uuid"] if found else None, "isSidechain": False, "type": kind, "uuid": own,
            "timestamp": "2026-03-09T10:00:00.000Z", "cwd": "/home/dev/orchard", "version": "2.1.332", "message": message,
        })  # fmt: skip
    return found


def plain(path: Path, some: list[Record]) -> None:
    data = "".join(f"{json.dumps(record, ensure_ascii=False, separators=(',', ':'))}\n" for record in some).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fts(database: Path) -> Callable[[list[tuple[str | None, ...]]], None]:
    """Into a search index like ours and nothing else."""
    connection = sqlite3.connect(database, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(SEARCH_SQL[1])
    connection.execute(SEARCH_SQL[2])

    def append(some: list[tuple[str | None, ...]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO search VALUES (?, ?, ?, ?, ?, ?, ?, ?)", some)
        connection.execute("COMMIT")

    return append


def texts_of(some: list[Record]) -> list[tuple[str | None, ...]]:
    place = TextPlace("local", "-home-dev-orchard", str(uuid.uuid4()))
    return [found for record in some if (found := texts(orjson.dumps(record), record["type"], place, []))]


def in_turn(places: list[Place], batch: int, rounds: int) -> dict[tuple[str, int], float]:
    """The median time of an append of so many entries to each place."""
    tell(f"appending {batch} at a time")
    samples: dict[str, list[float]] = {place.name: [] for place in places}
    for _ in range(rounds):
        for place in places:
            some = place.prepared(made(batch))
            begun = time.perf_counter()
            place.append(some)
            samples[place.name].append(time.perf_counter() - begun)
    return {(name, batch): statistics.median(found) for name, found in samples.items()}


def table(places: list[Place], times: dict[tuple[str, int], float]) -> str:
    rows = []
    for batch in BATCHES:
        base = times[PLAIN, batch]
        worst = max(times[place.name, batch] for place in places if place.name != FTS)
        cells = [seconds(times[place.name, batch]) for place in places]
        if batch == 1:
            goal = f"≤ {seconds(MORE)} more: {'reached' if worst - base <= MORE else 'missed'}"
        else:
            missed = f"missed ({part(worst / base)}; FTS5 alone: {part(times[FTS, batch] / base)})"
            goal = f"≤ {TIMES} times: {'reached' if worst <= TIMES * base else missed}"
        rows.append([str(batch), *cells, goal])
    return markdown(["entries", *(place.name for place in places), "goal"], rows, range(len(places) + 1))
