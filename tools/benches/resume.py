"""tools/bench resume: a session's chain, against reading the whole file."""

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson

import transcripts
from benches.rivals import Worker, environment
from benches.timing import Run, Timings, command_line, here, machine, markdown, part, seconds, tell

SDK = "0.2.189"
Record = dict[str, Any]

# -- sessions to measure -------------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """A generated session of one chain."""

    id: str
    path: Path
    config: Path


def make_session(folder: Path, messages: int) -> Made:
    """Write a session of so many messages into a config folder of its own."""
    tell(f"writing a session of {messages:,} messages")
    config = folder / f"config-{messages}"
    tool = Path(__file__).parent.with_name("make_corpus")
    options = ["--one", str(messages), "--seed", str(messages)]  # another seed, another session id
    subprocess.run([sys.executable, tool, config, *options], check=True, stdout=subprocess.PIPE)
    (path,) = config.glob("projects/*/*.jsonl")
    return Made(path.stem, path, config)


@contextmanager
def moved_away(path: Path) -> Iterator[None]:
    """Within this block there is no such file."""
    other = path.with_suffix(".away")
    path.rename(other)
    try:
        yield
    finally:
        other.rename(path)


# -- claude_agent_sdk ----------------------------------------------------------------------------------------------------

SDK_WORKER = """
import gc, json, os, sys, time
from claude_agent_sdk import get_session_messages
for line in sys.stdin:
    asked = json.loads(line)
    os.environ["CLAUDE_CONFIG_DIR"] = asked["config"]
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(asked["repeats"]):
        given = get_session_messages(asked["session"], limit=asked["limit"], offset=asked["offset"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([wall / asked["repeats"], cpu / asked["repeats"], len(given)]), flush=True)
    del given
"""


class Sdk(Worker):
    """A process with claude_agent_sdk in it."""

    def __init__(self, python: Path) -> None:
        super().__init__(python, SDK_WORKER)

    def run(self, made: Made, limit: int | None = None, offset: int = 0) -> Run:
        """get_session_messages of a session."""
        asked = {"config": str(made.config), "session": made.id, "limit": limit, "offset": offset}
        return lambda repeats: self.ask(asked | {"repeats": repeats})


def sdk_python(given: Path | None) -> Path | None:
    """A Python with claude_agent_sdk, made from its source: the wheels bring the whole client along."""
    return environment("claude-agent-sdk", SDK, given, "--no-binary", "claude-agent-sdk")


# -- resume --------------------------------------------------------------------------------------------------------------

RESUME_ROWS = {
    "parse": "(a) orjson over the whole file, then the walk",
    "sdk": "(b) claude_agent_sdk, all messages",
    "sdk page": "(b) claude_agent_sdk, the last page of 20",
    "live": "chain, raw lines from the live file",
    "chunks": "chain, raw lines from the chunks",
    "decoded": "chain, decoded, from the live file",
    "last": "the last 20, decoded, from the live file",
    "metadata": "chain without bodies",
}
Cell = tuple[str, int]  # row, messages of the session


class Goal(NamedTuple):
    """That a row takes at most a part of a rival's time, at all sizes or only at the largest."""

    row: str
    rival: str
    part: int
    largest: bool = False


RESUME_GOALS = [
    Goal("live", "parse", 3), Goal("live", "sdk", 8), Goal("chunks", "parse", 2), Goal("decoded", "sdk", 2),
    Goal("last", "sdk page", 100, largest=True),
]  # fmt: skip
FLAT = 1.5  # of the last 20: growth over all sizes up to which the time counts as the same
STEEPEST = 12  # of the chain without bodies: growth for 10 times the length


def bench_resume(args: argparse.Namespace) -> None:
    """Time the chain of generated sessions against reading the whole file."""
    sizes = sorted(set(args.sizes or ([1000, 10_000] if args.quick else [1000, 10_000, 100_000])))
    rounds = args.rounds or (3 if args.quick else 7)
    python = None if args.no_sdk else sdk_python(args.sdk_python)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transcripts-bench-")))
        index = stack.enter_context(transcripts.Index.open(folder / "bench.db", fresh=False))
        sdk = stack.enter_context(Sdk(python)) if python else None
        runs: dict[Cell, Run] = {}
        megabytes: dict[int, float] = {}
        for size in sizes:
            made = make_session(folder, size)
            megabytes[size] = made.path.stat().st_size / 1e6
            tell(f"importing {megabytes[size]:,.1f} MB")
            index.sync([made.config])
            check_resume(index, made)
            runs |= {(row, size): run for row, run in resume_runs(index, made, sdk).items()}
        timings = Timings(runs, rounds, args.clock)
    why = "as asked" if args.no_sdk else "the given Python has it not" if args.sdk_python else "it could not be installed"
    notes = [
        f"Times are wall clock, medians of {rounds} rounds, from a session's id to the answer. Ratios are of "
        f"{'wall clock' if args.clock == 'wall' else 'CPU'} times, medians of those within each round, one for each size. Growth "
        "is the time as a multiple of that at the size before.",
        f"Sessions: {'; '.join(session_note(timings, size, megabytes[size]) for size in sizes)}. (a) does not meet all of "
        "parallel tool calls, (b) gives turns only.",
        *([] if sdk else [f"claude_agent_sdk {SDK} was not timed: {why}."]),
        f"`{command_line()}` on {machine(**({'claude_agent_sdk': SDK} if sdk else {}))}.",
    ]
    sys.stdout.write("\n\n".join([resume_table(timings, sizes), *notes]) + "\n")


def check_resume(index: transcripts.Index, made: Made) -> None:
    """That the ways to be timed give the same."""
    chain = index.resume(made.id)
    live = list(chain.lines())
    with moved_away(made.path):
        kept = list(chain.lines())
    uuids = {orjson.loads(line)["uuid"] for line in live} | {uuid for uuid, _why in chain.dropped}
    if live != kept or not uuids.issuperset(record["uuid"] for record in parse_and_walk(made.path)):
        raise SystemExit("the ways to the chain do not give the same; there is nothing to compare")


def resume_runs(index: transcripts.Index, made: Made, sdk: Sdk | None) -> dict[str, Run]:
    """What is timed, in the order of the table."""

    def raw() -> list[bytes]:
        return list(index.resume(made.id).lines())

    def decoded(last: int | None = None) -> list[Record]:
        return [orjson.loads(line) for line in index.resume(made.id, last=last).lines()]

    runs = {"parse": here(lambda: parse_and_walk(made.path))}
    if sdk:
        whole = sdk.run(made)
        runs |= {"sdk": whole, "sdk page": sdk.run(made, 20, max(0, whole(1).given - 20))}
    return runs | {
        "live": here(raw),
        "chunks": here(raw, around=lambda: moved_away(made.path)),
        "decoded": here(decoded),
        "last": here(lambda: decoded(20)),
        "metadata": here(lambda: index.resume(made.id).entries),
    }


def parse_and_walk(path: Path) -> list[Record]:
    """The plain way: every line of the file parsed, then from the last message along parentUuid to the root."""
    by_uuid: dict[str, Record] = {}
    at: str | None = None
    with path.open("rb") as file:
        for line in file:
            record = orjson.loads(line)
            if "uuid" in record and "parentUuid" in record:
                at = record["uuid"]
                by_uuid[record["uuid"]] = record
    chain = []
    while at is not None and (found := by_uuid.pop(at, None)) is not None:
        chain.append(found)
        at = found["parentUuid"]
    return chain[::-1]


def resume_table(timings: Timings[Cell], sizes: list[int]) -> str:
    rows = []
    for row, name in RESUME_ROWS.items():
        if (row, sizes[0]) not in timings:
            rows.append([name, *("not timed" for _ in sizes), *[""] * 5])
            continue
        times = [seconds(timings.wall((row, size))) for size in sizes]
        growth = ", ".join(f"{timings.ratio((row, size), (row, before)):.1f}" for before, size in steps(sizes))
        rivals = [] if row in ("parse", "sdk", "sdk page") else ["parse", "sdk page" if row == "last" else "sdk"]
        parts = [parts_of(timings, row, rival, sizes) for rival in rivals] or ["", ""]
        goals = "; ".join(f"{goal}: {verdict}" for goal, verdict in goals_of(timings, row, sizes))
        rows.append([name, *times, seconds(timings.cpu((row, sizes[-1]))), growth, *parts, goals])
    head = [*(f"{size:,}" for size in sizes), f"CPU at {sizes[-1]:,}", "growth", "part of (a)", "part of (b)", "goals"]
    return markdown(["messages", *head], rows, range(1, len(head)))


def parts_of(timings: Timings[Cell], row: str, rival: str, sizes: list[int]) -> str:
    if (rival, sizes[0]) not in timings:
        return "not timed"
    return ", ".join(part(timings.ratio((row, size), (rival, size))) for size in sizes)


def goals_of(timings: Timings[Cell], row: str, sizes: list[int]) -> Iterator[tuple[str, str]]:
    """A row's goals, as far as they were timed, and whether they were reached."""
    for goal in RESUME_GOALS:
        if goal.row == row and (goal.rival, sizes[0]) in timings:
            asked = sizes[-1:] if goal.largest else sizes
            missed = [size for size in asked if timings.ratio((row, size), (goal.rival, size)) > 1 / goal.part]
            name = f"≤ 1/{goal.part} of ({'a' if goal.rival == 'parse' else 'b'})"
            yield f"{name} at {sizes[-1]:,}" if goal.largest else name, verdict(missed)
    if row == "last":
        yield "flat", verdict([size for size in sizes if timings.ratio((row, size), (row, sizes[0])) > FLAT])
    if row == "metadata":
        ratios = {size: timings.ratio((row, size), (row, before)) / (size / before) for before, size in steps(sizes)}
        yield f"growth ≤ {STEEPEST} for 10 times", verdict([size for size in ratios if ratios[size] > STEEPEST / 10])


def verdict(missed: list[int]) -> str:
    return f"missed at {' and '.join(f'{size:,}' for size in missed)}" if missed else "reached"


def steps(sizes: list[int]) -> list[tuple[int, int]]:
    """Each size but the first, behind the one before it."""
    return list(itertools.pairwise(sizes))


def session_note(timings: Timings[Cell], size: int, megabytes: float) -> str:
    """How large a session is, and how many lines each way gave of it."""
    counts = [f"{timings.count(('live', size)):,} lines in the chain", f"{timings.count(('parse', size)):,} by (a)"]
    if ("sdk", size) in timings:
        counts.append(f"{timings.count(('sdk', size)):,} by (b)")
    return f"{size:,} messages, {megabytes:,.1f} MB, {', '.join(counts)}"
