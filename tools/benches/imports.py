"""tools/bench import: a whole import into a new database, beside what it cannot do without and beside other programs.

Each is a process of its own, timed from its start to its end. The floors:

- reading: all bytes of the transcripts and side files, in blocks.
- parsing: orjson over each line of the transcripts.
- FTS5 alone: the texts that we index, made beforehand and off the clock, into a new table like ours with the hash size that is
  best here, in one transaction, without a journal and without a wait for the disk. Not merged at the end, as ours is not.

The rows are usable when list, resume, export and SQL, asked in another process while the import runs, give what they give after
it.
"""

import argparse
import hashlib
import io
import itertools
import json
import pickle
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import orjson

import transcripts
from benches.peers import LIMIT, PEERS, SPOKEN, Peer, asked, installed, left_out, make_home, opened, write_probe
from benches.timing import (
    Costs,
    Spent,
    command_line,
    command_of,
    machine,
    make_corpus,
    markdown,
    megabytes,
    part,
    process,
    reached,
    seconds,
    stored,
    tell,
    tenth_and_whole,
)
from transcripts.files.discover import TranscriptFile, scan
from transcripts.index.scope import Place
from transcripts.index.text import SEARCHED_TYPES, texts

FLOOR, PEER, FULL, MEMORY, USABLE = 1.4, 0.5, 0.9, 300e6, 0.25  # the goals: times the floor, parts of peers, bytes, a part
HASH_SIZES = (16, 32, 64, 128)  # MB
SLOW = 5  # times our time: what takes longer is run once
DOCUMENTS = 1000  # in a batch of prepared texts
OURS, FTS, READING, PARSING = "transcripts", "FTS5 alone", "reading the bytes", "orjson over all lines"

READ = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            while file.read(1 << 20):
                pass
"""
PARSE = """
import os, sys, orjson
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".jsonl"):
            with open(os.path.join(folder, name), "rb") as file:
                for line in file:
                    try:
                        orjson.loads(line)
                    except ValueError:
                        pass
"""
INSERT = """
import gc, json, pickle, sqlite3, sys, time
asked = json.loads(sys.argv[1])
connection = sqlite3.connect(asked["database"], isolation_level=None)
for pragma in (f"page_size = {asked['page_size']}", "journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
    connection.execute(f"PRAGMA {pragma}")
connection.execute(asked["create"])
connection.execute("INSERT INTO search (search, rank) VALUES ('hashsize', ?)", (asked["hash_size"],))
gc.disable()
wall = cpu = 0.0
def timed(call, *values):
    global wall, cpu
    begun, used = time.perf_counter(), time.process_time()
    call(*values)
    wall, cpu = wall + time.perf_counter() - begun, cpu + time.process_time() - used
timed(connection.execute, "BEGIN")
with open(asked["prepared"], "rb") as file:
    while rows := pickle.load(file):
        timed(connection.executemany, asked["insert"], rows)
timed(connection.execute, "COMMIT")
print(json.dumps([wall, cpu]))
"""


class Corpus(NamedTuple):
    """Transcripts to import, and what there is after it."""

    root: Path
    size: int  # bytes
    entries: int
    sessions: int
    work: Path
    answers: list[Any]
    floor: dict[str, Any]  # what the floor's process is told


Cell = tuple[str, int]  # who, number of the corpus


def bench_import(args: argparse.Namespace) -> None:
    """Time whole imports of a corpus and of a tenth of it."""
    sizes = tenth_and_whole(args.size or ("20MB" if args.quick else "1000MB"))
    rounds = args.rounds or (2 if args.quick else 3)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        missing = {OURS: ours_left_out(folder / "probe")}
        peers = {} if args.no_peers or args.quick else dict(installed(PEERS))
        for peer, programs in peers.items():
            if peer.leaves_out is None:
                tell(f"asking what the index of {peer.name} holds")
                missing[peer.name] = asked(peer, programs, folder / f"probe-{peer.name}")
        table = Table(rounds)
        for at, size in enumerate(sizes):
            corpus = made(folder / size, size)
            table.corpora.append(corpus)
            table.hash_sizes.append(best_hash_size(corpus, HASH_SIZES[1:2] if args.quick else HASH_SIZES))
            table.measure(corpus, at, peers)
            shutil.rmtree(folder / size)
    told = {who: ", ".join(some) or "nothing" for who, some in missing.items()}
    told |= {peer.name: peer.leaves_out for peer in PEERS.values() if peer.leaves_out}
    full = [peer.name for peer in peers if peer.leaves_out is None and not set(SPOKEN) & set(missing[peer.name])]
    sys.stdout.write("\n\n".join([table.markdown(told), *table.notes(full, told), f"`{command_line()}` on {machine()}."]) + "\n")


# -- what is imported ------------------------------------------------------------------------------------------------------


def made(folder: Path, size: str) -> Corpus:
    """Make a corpus, import it once, and prepare its texts."""
    root, work = folder / "config", folder / "work"
    numbers = make_corpus(root, size)
    work.mkdir()
    tell("importing it once, to have all in the page cache and to know the answers")
    database = work / "first.db"
    ours(root, database)
    tell("preparing its texts")
    prepared = work / "texts.pickle"
    count = write_texts(root, prepared)
    with opened(database) as connection:
        (create,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'search'").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(search)")]
        (documents,) = connection.execute("SELECT count(*) FROM search_docsize").fetchone()
    if abs(count - documents) > documents / 100:
        raise SystemExit(f"{count:,} texts were prepared, and {documents:,} are in our index; there is nothing to compare")
    marks = ", ".join("?" * (1 + len(columns)))
    floor = {
        "prepared": str(prepared), "create": create, "page_size": page_size,
        "insert": f"INSERT INTO search (rowid, {', '.join(columns)}) VALUES ({marks})",
    }  # fmt: skip
    return Corpus(root, numbers["bytes"], numbers["entries"], numbers["sessions"], work, list(answers(database)), floor)


def write_texts(root: Path, prepared: Path) -> int:
    """Write the texts that we index of all transcripts, in batches, an empty one last; how many documents."""
    rows = ((number, *found) for number, found in enumerate(all_texts(root), 1))
    count = 0
    with prepared.open("wb") as file:
        while batch := list(itertools.islice(rows, DOCUMENTS)):
            pickle.dump(batch, file)
            count += len(batch)
        pickle.dump([], file)
    return count


def all_texts(root: Path) -> Iterator[tuple[str | None, ...]]:
    for file in sorted(scan(root).files, key=lambda file: (file.mtime_ns, file.path)):
        if file.kind != "side":
            yield from texts_of(file)


def texts_of(file: TranscriptFile) -> Iterator[tuple[str | None, ...]]:
    place, tools = Place("local", file.project_key, file.session_id), dict[str, str]()
    with open(file.path, "rb") as lines:
        for line in lines:
            try:
                record = orjson.loads(line)
            except ValueError:
                continue
            if not isinstance(record, dict) or record.get("type") not in SEARCHED_TYPES:
                continue
            answered = []
            message = record.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else []:
                if block.get("type") == "tool_use":
                    tools[block["id"]] = block["name"]
                elif block.get("type") == "tool_result" and (name := tools.get(block["tool_use_id"])):
                    answered.append(name)
            if found := texts(line, record["type"], place, answered):
                yield found


# -- who imports -----------------------------------------------------------------------------------------------------------


class Watch:
    """Looks into a database while it is filled, for the time when the answers are what they will be in the end."""

    def __init__(self, database: Path, corpus: Corpus) -> None:
        self._database, self._corpus = database, corpus
        self.at: float | None = None  # of time.monotonic()

    def look(self) -> None:
        if self.at is None and self._is_all_there():
            begun = time.monotonic()
            if self._is_as_wanted():
                self.at = begun

    def _is_as_wanted(self) -> bool:
        try:
            given = answers(self._database)
            return all(answer == wanted for answer, wanted in zip(given, self._corpus.answers, strict=True))
        except transcripts.TranscriptsError:
            return False

    def _is_all_there(self) -> bool:
        """Whether there are as many sessions as there will be: the cheap question first."""
        try:
            with opened(self._database) as connection:
                (count,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
                return bool(count == self._corpus.sessions)
        except sqlite3.Error:
            return False


def answers(database: Path) -> Iterator[Any]:
    """What list, resume, export and SQL give, one by one."""
    with transcripts.Index.open(database, fresh=False) as index:
        yield from questions(index)


def questions(index: transcripts.Index) -> Iterator[Any]:
    sessions = index.sessions()
    yield sessions
    for session in sessions[:: max(1, len(sessions) // 3)]:
        yield hashlib.sha256(b"\n".join(index.resume(session.path).lines())).hexdigest()
        out = io.BytesIO()
        index.export(session.path, out)
        yield hashlib.sha256(out.getvalue()).hexdigest()
    yield index.sql("SELECT * FROM v_models").rows
    yield index.sql("SELECT * FROM v_tools").rows


def ours(root: Path, database: Path, watch: Watch | None = None, pause: float = 0.02) -> Spent:
    """Our command, into a new database."""
    spent = process(command_of("sync", root, "--db", database), beside=watch.look if watch else None, pause=pause)
    if spent.status:
        raise SystemExit(f"our import has failed: {spent.words}")
    return spent


def fts(corpus: Corpus, hash_size: int, at: Path) -> Spent:
    """FTS5 alone: what its process was clocked at."""
    out = corpus.work / "floor.out"
    asked = corpus.floor | {"database": str(at), "hash_size": hash_size << 20}
    spent = process([sys.executable, "-c", INSERT, json.dumps(asked)], out=out)
    if spent.status:
        raise SystemExit(f"FTS5 alone has failed: {spent.words}")
    wall, cpu = orjson.loads(out.read_bytes())
    return spent._replace(wall=wall, cpu=cpu)


def best_hash_size(corpus: Corpus, sizes: Sequence[int]) -> dict[int, float]:
    """The seconds that FTS5 alone takes with each hash size, the best first."""
    taken = {}
    for hash_size in sizes:
        database = corpus.work / "floor.db"
        taken[hash_size] = fts(corpus, hash_size, database).wall
        tell(f"FTS5 alone, {hash_size} MB: {seconds(taken[hash_size])}")
        database.unlink()
    return dict(sorted(taken.items(), key=lambda item: item[1]))


def ours_left_out(folder: Path) -> list[str]:
    """What our index leaves out, as it treats the probe."""
    write_probe(folder / "projects")
    with transcripts.Index.open(folder / "probe.db") as index:
        index.sync([folder])
    return left_out(folder / "probe.db")


# -- measuring and telling -------------------------------------------------------------------------------------------------


class Table:
    """What was measured, at both sizes."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._costs: Costs[Cell] = Costs()
        self._sizes: dict[Cell, int] = {}
        self._failed: dict[Cell, str] = {}
        self._usable: dict[int, list[float]] = {}
        self.corpora: list[Corpus] = []
        self.hash_sizes: list[dict[int, float]] = []

    def measure(self, corpus: Corpus, at: int, peers: dict[Peer, Path]) -> None:
        """Run all in turn, so many rounds."""
        for number in range(self._rounds):
            tell(f"round {number + 1} of {self._rounds}")
            self._ours(corpus, at)
            floor = corpus.work / "floor.db"
            self._costs.add((FTS, at), fts(corpus, next(iter(self.hash_sizes[at])), floor))
            self._sizes[FTS, at] = stored(floor)
            floor.unlink()
            for who, program in ((READING, READ), (PARSING, PARSE)):
                self._costs.add((who, at), process([sys.executable, "-c", program, str(corpus.root)]))
            for peer, programs in peers.items():
                self._peer(peer, programs, corpus, at)

    def _ours(self, corpus: Corpus, at: int) -> None:
        database = corpus.work / "ours.db"
        watch = Watch(database, corpus)
        expected = self._costs.wall((OURS, at)) if (OURS, at) in self._costs else corpus.size / 20e6
        spent = ours(corpus.root, database, watch, max(0.02, expected / 250))
        watch.look()
        if watch.at is None:
            raise SystemExit("two imports of the same files do not give the same answers; there is nothing to compare")
        self._costs.add((OURS, at), spent)
        self._usable.setdefault(at, []).append(min(1.0, (watch.at - spent.begun) / spent.wall))
        self._sizes[OURS, at] = stored(database)
        for path in database.parent.glob(f"{database.name}*"):
            path.unlink()

    def _peer(self, peer: Peer, programs: Path, corpus: Corpus, at: int) -> None:
        cell = (peer.name, at)
        if cell in self._failed or (cell in self._costs and self._costs.ratio(cell, (OURS, at)) > SLOW):
            return
        tell(peer.title)
        home = make_home(peer, programs, corpus.work / peer.name, corpus.root / "projects")
        spent = home.run()
        if wrong := home.wrong(spent):
            self._failed[cell] = wrong
        else:
            self._costs.add(cell, spent)
            if (size := home.size()) is not None:
                self._sizes[cell] = size
        shutil.rmtree(home.folder)

    def markdown(self, left_out: dict[str, str]) -> str:
        sizes = [megabytes(corpus.size) for corpus in self.corpora]
        head = [
            "", f"wall at {sizes[1]}", f"wall at {sizes[0]}", "growth", "CPU", "peak memory", "database", "part of the files",
            "ours, as part of it", "its index leaves out",
        ]  # fmt: skip
        rows = [self._row(who, left_out.get(who, "")) for who in (OURS, FTS, READING, PARSING)]
        rows += [self._row(peer.name, left_out.get(peer.name, ""), peer.title) for peer in PEERS.values()]
        return markdown(head, rows, range(1, len(head) - 1))

    def _row(self, who: str, left_out: str, title: str = "") -> list[str]:
        small, large = (who, 0), (who, 1)
        cells = [
            seconds(self._costs.wall(cell)) if cell in self._costs else self._failed.get(cell, "-") for cell in (large, small)
        ]
        if large not in self._costs:
            return [title or who, *cells, *["-"] * 6, left_out]
        growth = f"{self._costs.wall(large) / self._costs.wall(small):.1f}" if small in self._costs else "-"
        size = self._sizes.get(large)
        return [
            title or who, *cells, growth, seconds(self._costs.cpu(large)), megabytes(self._costs.peak(large)),
            megabytes(size) if size else "-", f"{size / self.corpora[1].size:.2f}" if size else "-",
            "" if who == OURS else part(self._costs.ratio((OURS, 1), large)), left_out,
        ]  # fmt: skip

    def notes(self, full: list[str], left_out: dict[str, str]) -> list[str]:
        """What was done, and the goals; `full` are the peers that index all that is said."""
        corpus, hash_sizes = self.corpora[1], self.hash_sizes[1]
        tried = ", ".join(f"{size} MB {seconds(taken)}" for size, taken in hash_sizes.items())
        return [
            f"Whole processes into a new database, run in turn, medians of {self._rounds} rounds, ratios within a round; what "
            f"takes more than {SLOW} times our time is run once, and {LIMIT} s are the limit. CPU is user and system time with "
            f"that of processes started; memory that of the largest process. {corpus.size / 1e6:,.0f} MB: {corpus.entries:,} "
            f"entries of {corpus.sessions:,} sessions. Growth is for ten times the data.",
            f"FTS5 alone: the texts that we index, prepared off the clock, with our columns and tokenizer; a hash size of "
            f"{tried}. Its process reads the prepared texts off the clock too. What an index leaves out was found by a session "
            "with a word in each place, searched in the full-text tables.",
            *(f"Goal: {goal}" for goal in self._goals(full, left_out)),
        ]

    def _goals(self, full: list[str], left_out: dict[str, str]) -> Iterator[str]:
        costs = self._costs
        floor = costs.ratio((OURS, 1), (FTS, 1))
        yield f"at most {FLOOR} times FTS5 alone: {floor:.2f}, {reached(floor <= FLOOR)}."
        if ("agentsview", 1) in costs:
            found = costs.ratio((OURS, 1), ("agentsview", 1))
            yield f"at most {PEER} of agentsview: {found:.2f}, {reached(found <= PEER)}."
        if timed := [name for name in full if (name, 1) in costs]:
            fastest = min(timed, key=lambda name: costs.wall((name, 1)))
            found = costs.ratio((OURS, 1), (fastest, 1))
            yield (
                f"at most {FULL} of the fastest that indexes {', '.join(SPOKEN)}: {found:.2f} of {fastest} (left out: "
                f"{left_out[fastest]}), {reached(found <= FULL)}."
            )
        peak = costs.peak((OURS, 1))
        yield f"less than {megabytes(MEMORY)} of memory: {megabytes(peak)}, {reached(peak < MEMORY)}."
        usable = sorted(self._usable[1])[len(self._usable[1]) // 2]
        yield f"list, resume, export and SQL work after at most {USABLE} of the time: {usable:.2f}, {reached(usable <= USABLE)}."
