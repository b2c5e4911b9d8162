"""tools/bench analytics: questions to the views over a generated corpus, and a tenth of it, beside DuckDB over the raw files."""

import argparse
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import transcripts
from benches.rivals import Worker, environment
from benches.timing import Run, Timings, command_line, here, machine, markdown, seconds, tell

GOAL = 0.050  # seconds
DUCKDB = "1.5.5"
QUERIES = {
    "daily usage": "SELECT * FROM v_daily_usage",
    "models": "SELECT * FROM v_models",
    "tools": "SELECT * FROM v_tools",
    "top files": "SELECT path, reads, edits, writes FROM v_files ORDER BY reads + edits + writes DESC LIMIT 20",
}
RAW = {
    # of a reply's lines in a file the last, of those of all files the one with the most output
    "daily usage": """
        SELECT day, count(*), sum(i), sum(o), sum(r), sum(w) FROM (
          SELECT min(day) AS day, arg_max(i, o) AS i, max(o) AS o, arg_max(r, o) AS r, arg_max(w, o) AS w
          FROM replies GROUP BY id, request
        ) GROUP BY day""",
    "models": """
        SELECT model, count(*), sum(i), sum(o), sum(r), sum(w) FROM (
          SELECT arg_max(model, o) AS model, arg_max(i, o) AS i, max(o) AS o, arg_max(r, o) AS r, arg_max(w, o) AS w
          FROM replies GROUP BY id, request
        ) GROUP BY model""",
    "tools": """
        SELECT name, count(*), count(*) FILTER (failed), quantile_disc(took, 0.5), quantile_disc(took, 0.95) FROM (
          SELECT c.name, r.failed, epoch_ms(r.said) - epoch_ms(c.said) AS took
          FROM (SELECT id, said, any_value(name) AS name FROM calls GROUP BY id, said) AS c
          LEFT JOIN (SELECT id, min(said) AS said, any_value(failed) AS failed FROM results GROUP BY id) AS r ON r.id = c.id
        ) GROUP BY name""",
    "top files": """
        SELECT path, count(*) AS n FROM (SELECT DISTINCT id, said, path FROM calls WHERE path IS NOT NULL)
        GROUP BY path ORDER BY n DESC LIMIT 20""",
}
LINES = """read_json_objects($files, format = 'newline_delimited', ignore_errors = true, filename = true,
          maximum_object_size = 100000000)"""
DUCKDB_WORKER = f"""
import duckdb, json, sys, time
SETS = {{
    "replies": '''WITH lines AS (
        SELECT filename, row_number() OVER () AS n, (json ->> '$.message.id') AS id, (json ->> '$.message.model') AS model,
          coalesce(json ->> '$.requestId', '') AS request, (json ->> '$.timestamp') AS said,
          CAST(json ->> '$.message.usage.input_tokens' AS BIGINT) AS i,
          CAST(json ->> '$.message.usage.output_tokens' AS BIGINT) AS o,
          CAST(json ->> '$.message.usage.cache_read_input_tokens' AS BIGINT) AS r,
          CAST(json ->> '$.message.usage.cache_creation_input_tokens' AS BIGINT) AS w
        FROM {LINES} WHERE (json ->> '$.type') = 'assistant' AND (json ->> '$.message.usage.output_tokens') IS NOT NULL
      ), replies AS (
        SELECT filename, id, request, arg_max(model, n) AS model, left(min(said), 10) AS day, arg_max(i, n) AS i,
          arg_max(o, n) AS o, arg_max(r, n) AS r, arg_max(w, n) AS w FROM lines GROUP BY filename, id, request
      ) ''',
    "calls": '''WITH blocks AS (
        SELECT CAST(json ->> '$.timestamp' AS TIMESTAMP) AS said, unnest(CAST(json -> '$.message.content' AS JSON[])) AS block
        FROM {LINES} WHERE (json ->> '$.type') IN ('user', 'assistant') AND json_type(json, '$.message.content') = 'ARRAY'
      ), calls AS (
        SELECT (block ->> '$.id') AS id, said, (block ->> '$.name') AS name,
          coalesce(block ->> '$.input.file_path', (block ->> '$.input.notebook_path')) AS path
        FROM blocks WHERE (block ->> '$.type') = 'tool_use'
      ), results AS (
        SELECT (block ->> '$.tool_use_id') AS id, said, coalesce(block ->> '$.is_error', '') = 'true' AS failed
        FROM blocks WHERE (block ->> '$.type') = 'tool_result'
      ) ''',
}}
duckdb.execute("SET enable_progress_bar = false")  # it would be drawn among the answers
for line in sys.stdin:
    asked = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    found = duckdb.execute(SETS[asked["of"]] + asked["query"], {{"files": asked["files"]}}).fetchall()
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, len(found)]), flush=True)
"""


class Corpus(NamedTuple):
    """An imported corpus, its size in bytes, and a plain connection to its database."""

    folder: Path
    size: int
    replies: int
    index: transcripts.Index
    plain: sqlite3.Connection


Cell = tuple[str, str, int]  # question, how, number of the corpus


def bench_analytics(args: argparse.Namespace) -> None:
    """Time the questions in one process, as plain SQLite, as `stats`, and by DuckDB over the files."""
    size = args.size or ("20MB" if args.quick else "1000MB")
    rounds = args.rounds or (3 if args.quick else 7)
    number, unit = re.fullmatch(r"(\d+)([KM]B)", size.replace("GB", "000MB")).groups()  # type: ignore[union-attr]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        corpora = [made(stack, folder, f"{int(number) // part}{unit}") for part in (10, 1)]
        runs: dict[Cell, Run] = {}
        for at, corpus in enumerate(corpora):
            for name, query in QUERIES.items():
                runs[name, "views", at] = here(lambda plain=corpus.plain, query=query: plain.execute(query).fetchall())  # type: ignore[misc]
            for by in ("day", "model", "tool"):
                runs[by, "stats", at] = here(lambda index=corpus.index, by=by: index.stats(by).rows)  # type: ignore[misc]
        timings = Timings(runs, rounds, "wall")
        raw = {} if args.no_duckdb else over_files(stack, corpora[-1])
    missed = [name for name in QUERIES if timings.wall((name, "views", 1)) > GOAL]
    asked = ", ".join(f"{by} {seconds(timings.wall((by, 'stats', 1)))}" for by in ("day", "model", "tool"))
    sizes = [f"{corpus.size / 1e6:,.0f} MB" for corpus in corpora]
    notes = [
        f"Times are wall clock in one process, medians of {rounds} rounds, all rows fetched by plain SQLite; {sizes[0]} and "
        f"{sizes[1]} ({corpora[1].replies:,} replies). DuckDB {DUCKDB} reads the same transcripts, with the same "
        "deduplication, once to warm up and once to be timed.",
        f"Goal {seconds(GOAL)} each at {sizes[1]}: {'reached' if not missed else 'missed by ' + ', '.join(missed)}.",
        f"`stats` with its rows as objects, without the freshness scan: {asked}.",
        f"`{command_line()}` on {machine()}.",
    ]
    head = ["question", *sizes, "DuckDB over the files"]
    rows = [
        [name, *(seconds(timings.wall((name, "views", at))) for at in (0, 1)), seconds(raw[name]) if name in raw else "-"]
        for name in QUERIES
    ]
    sys.stdout.write("\n\n".join([markdown(head, rows, range(1, len(head))), *notes]) + "\n")


def made(stack: ExitStack, folder: Path, size: str) -> Corpus:
    """Make a corpus and import it; the text index is of no use here."""
    root = folder / size
    tell(f"making {size}")
    tool = Path(__file__).parent.with_name("make_corpus")
    subprocess.run([sys.executable, tool, root, "--size", size], check=True, stdout=subprocess.PIPE)
    index = stack.enter_context(transcripts.Index.open(folder / f"{size}.db", fresh=False))
    tell(f"importing {size}")
    report = index.sync([root], texts=False)
    plain = sqlite3.connect(f"file:{index.path}?mode=ro", uri=True)
    stack.callback(plain.close)
    replies = plain.execute("SELECT count(*) FROM responses").fetchone()[0]
    return Corpus(root, report.bytes, replies, index, plain)


def over_files(stack: ExitStack, corpus: Corpus) -> dict[str, float]:
    """Seconds that DuckDB takes for each question over the raw files; nothing where it cannot be had."""
    python = environment("duckdb", DUCKDB)
    if python is None:
        return {}
    worker = stack.enter_context(Worker(python, DUCKDB_WORKER))
    files = f"{corpus.folder / 'projects'}/**/*.jsonl"
    told: dict[str, float] = {}
    for name, query in RAW.items():
        tell(f"DuckDB: {name}")
        asked: dict[str, Any] = {"files": files, "query": query, "of": "replies" if "replies" in query else "calls"}
        worker.ask(asked)
        told[name] = worker.ask(asked).wall
    return told
