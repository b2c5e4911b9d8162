"""tools/bench search: queries over a generated corpus, and over one ten times smaller, beside what reads the files."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import transcripts
from benches.rivals import Worker, environment
from benches.timing import Run, Timings, command_line, here, machine, markdown, seconds, tell

MEDIAN, LONGEST = 0.010, 0.050  # seconds: the goals
PAGE = 20
DUCKDB = "1.4.1"
QUERIES = {
    "rare word": "xylorimba7",
    "word in 1 %": "zindelwort",
    "word in 10 %": "marlokite",
    "word in 50 %": "quorvane",
    "phrase of common words": '"of the"',
    "beginning": "zindel*",
    "two words": "quorvane AND zindelwort",
    "either of two": "marlokite OR zindelwort",
    "part of an identifier": "config",
    "identifier": "parse_config",
    "pair of CJK characters": "的一",
}
VARIANTS = ("best", "filtered", "newest")
DUCKDB_WORKER = """
import duckdb, json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    found = duckdb.execute(
        "SELECT filename FROM read_json_objects(?, format = 'newline_delimited', ignore_errors = true, filename = true, "
        "maximum_object_size = 100000000) WHERE contains(json, ?)", [asked["files"], asked["word"]]
    ).fetchall()
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, len(found)]), flush=True)
"""


class Corpus(NamedTuple):
    """An imported corpus: its size in bytes, and what the filtered queries ask for."""

    folder: Path
    size: int
    whole: int  # bytes of the database
    words: int  # bytes of its search index
    entries: int
    index: transcripts.Index
    fresh: transcripts.Index
    filters: dict[str, Any]


Cell = tuple[str, str, int]  # query, variant, number of the corpus


def bench_search(args: argparse.Namespace) -> None:
    """Time searches in one process, without and with filters, and by time."""
    size = args.size or ("20MB" if args.quick else "1000MB")
    rounds = args.rounds or (3 if args.quick else 7)
    number, unit = re.fullmatch(r"(\d+)([KM]B)", size.replace("GB", "000MB")).groups()  # type: ignore[union-attr]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        corpora = [made(stack, folder, f"{int(number) // part}{unit}") for part in (10, 1)]
        runs: dict[Cell, Run] = {}
        for at, corpus in enumerate(corpora):
            for name, query in QUERIES.items():
                runs[name, "best", at] = here(searched(corpus.index, query))
                runs[name, "filtered", at] = here(searched(corpus.index, query, **corpus.filters))
                runs[name, "newest", at] = here(searched(corpus.index, query, newest=True))
            runs["rare word", "fresh", at] = here(searched(corpus.fresh, QUERIES["rare word"]))
        timings = Timings(runs, rounds, "wall")
        readers = read_all(stack, corpora[-1], args)
    small, large = corpora
    cells = [(name, variant) for name in QUERIES for variant in VARIANTS]
    spent = {cell: timings.wall((*cell, 1)) for cell in cells}
    middle, longest = sorted(spent.values())[len(spent) // 2], max(spent, key=spent.__getitem__)
    slower = [cell for cell in cells if timings.ratio((*cell, 0), (*cell, 1)) > 1]
    scan = [timings.wall(("rare word", "fresh", at)) - timings.wall(("rare word", "best", at)) for at in (0, 1)]
    notes = [
        f"Times are wall clock in one process, medians of {rounds} rounds, for {PAGE} hits with their snippets, without the "
        f"freshness scan; {small.size / 1e6:,.0f} MB and {large.size / 1e6:,.0f} MB ({large.entries:,} entries). Filters: a "
        "project, a time, and no sub-agents.",
        f"Median of all {len(cells)} at {large.size / 1e6:,.0f} MB: {seconds(middle)} (goal {seconds(MEDIAN)}: "
        f"{'reached' if middle <= MEDIAN else 'missed'}); longest: {seconds(spent[longest])}, {' '.join(longest)} "
        f"(goal {seconds(LONGEST)}: {'reached' if spent[longest] <= LONGEST else 'missed'}). "
        f"{'No query takes longer' if not slower else f'{len(slower)} take longer'} on a tenth of the data.",
        f"The whole database, bytes included, is {large.whole / large.size:.2f} of the files' size, its search index "
        f"{large.words / large.size:.2f}.",
        f"The freshness scan before a question adds {seconds(scan[0])} and {seconds(scan[1])}.",
        *readers,
        f"`{command_line()}` on {machine()}.",
    ]
    sys.stdout.write("\n\n".join([search_table(timings, corpora), *notes]) + "\n")


def made(stack: ExitStack, folder: Path, asked: str) -> Corpus:
    """Make a corpus and import it."""
    root = folder / asked
    tell(f"making {asked}")
    tool = Path(__file__).parent.with_name("make_corpus")
    subprocess.run([sys.executable, tool, root, "--size", asked], check=True, stdout=subprocess.PIPE)
    index = stack.enter_context(transcripts.Index.open(folder / f"{asked}.db", fresh=False))
    fresh = stack.enter_context(transcripts.Index.open(folder / f"{asked}.db"))
    tell(f"importing {asked}")
    report = index.sync([root])
    sessions = index.sessions()
    middle = sessions[len(sessions) // 2]
    filters = {"project": middle.project, "since": sessions[-len(sessions) // 4].last_activity_at, "sidechains": False}
    size = "SELECT sum(length(block)) FROM search_data UNION ALL SELECT sum(length(sz) + 8) FROM search_docsize"
    words = sum(row[0] for row in index.sql(size).rows)
    return Corpus(root, report.bytes, os.path.getsize(index.path), words, report.entries, index, fresh, filters)


def searched(index: transcripts.Index, query: str, **wanted: Any) -> Any:
    def run() -> Sequence[Any]:
        return index.search(query, limit=PAGE, **wanted).hits

    return run


def search_table(timings: Timings[Cell], corpora: list[Corpus]) -> str:
    sizes = [f"{corpus.size / 1e6:,.0f} MB" for corpus in corpora]
    head = ["query", "", *(f"{variant} at {size}" for variant in VARIANTS for size in sizes)]
    rows = [
        [name, f"`{query}`", *(seconds(timings.wall((name, variant, at))) for variant in VARIANTS for at in (0, 1))]
        for name, query in QUERIES.items()
    ]
    return markdown(head, rows, range(2, len(head)))


# -- what reads the files --------------------------------------------------------------------------------------------------


def read_all(stack: ExitStack, corpus: Corpus, args: argparse.Namespace) -> list[str]:
    """Notes on how long a rare word takes others in the same files, as text and not ranked."""
    projects, word = corpus.folder / "projects", QUERIES["rare word"]
    notes = []
    for name, command in (("ripgrep", ["rg", "-c", "-F", word]), ("grep", ["grep", "-r", "-c", "-F", word])):
        if shutil.which(command[0]):
            run = here(lambda command=command: subprocess.run([*command, projects], check=False, capture_output=True).stdout)  # type: ignore[misc]
            run(1)
            notes.append(f"{name} for the rare word in all files, read before: {seconds(run(1).wall)}")
    if not args.no_duckdb and (python := environment("duckdb", DUCKDB)):
        worker = stack.enter_context(Worker(python, DUCKDB_WORKER))
        asked = {"files": f"{projects}/**/*.jsonl", "word": word}
        worker.ask(asked)
        notes.append(f"DuckDB {DUCKDB} over the raw JSONL: {seconds(worker.ask(asked).wall)}")
    return ["; ".join(notes) + "."] if notes else []
