"""tools/bench sdk: the Agent SDK's session functions, theirs on the files against ours on the index, in one process."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from benches.resume import make_session
from benches.timing import Run, Timings, command_line, here, machine, markdown, part, seconds, tell

PAGE = 20
MOST_BYTES = 150_000  # of a session in the list, on average
THEIRS, FIRST, OURS = "theirs", "first", "ours"
Cell = tuple[str, str, str]  # what is asked, of what, by whom


class Question(NamedTuple):
    """A call as it is timed, where its sessions lie, and its goal: a part of the SDK's time."""

    asked: str
    of: str
    config: Path
    call: Callable[[ModuleType], Sequence[Any]]
    goal: int | None

    @property
    def key(self) -> tuple[str, str]:
        return self.asked, self.of


def bench_sdk(args: argparse.Namespace) -> None:
    """Time list, info, messages and pages of generated sessions."""
    try:
        import claude_agent_sdk as sdk

        from transcripts.interfaces import held, sdk_sessions
    except ImportError:
        raise SystemExit("this needs claude-agent-sdk beside the package; run: pip install 'transcripts[sdk]'") from None
    sizes = sorted(set(args.sizes or ([35, 3500] if args.quick else [35, 3500, 35_000])))
    rounds = args.rounds or (3 if args.quick else 7)
    with tempfile.TemporaryDirectory(prefix="transcripts-bench-") as name, database(Path(name) / "bench.db"):
        questions = list(asked(Path(name), args.sessions or (200 if args.quick else 2000), sizes, sdk))
        for question in questions:
            with reading(question.config):
                check(question, sdk, sdk_sessions)
        runs: dict[Cell, Run] = {}
        for question in questions:
            runs[*question.key, THEIRS] = timed(question, sdk)
            runs[*question.key, FIRST] = timed(question, sdk_sessions, held.close_held)
            runs[*question.key, OURS] = timed(question, sdk_sessions)
        timings = Timings(runs, rounds, args.clock)
        held.close_held()
    clock = "wall clock" if args.clock == "wall" else "CPU"
    notes = [
        f"Times are wall clock, medians of {rounds} rounds; parts are of {clock} times, medians of those within each round. Each "
        "call is given an id and no directory, and looks on disk for what has changed. A first call opens the database, and "
        "nothing is remembered of an earlier one. Messages: of sessions of so many, and their size.",
        f"`{command_line()}` on {machine(claude_agent_sdk=version('claude-agent-sdk'))}.",
    ]
    sys.stdout.write("\n\n".join([table(timings, questions), *notes]) + "\n")


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Within this block the user's database is another one."""
    before = os.environ.get("TRANSCRIPTS_DB")
    os.environ["TRANSCRIPTS_DB"] = str(path)
    try:
        yield
    finally:
        os.environ.pop("TRANSCRIPTS_DB") if before is None else os.environ.update(TRANSCRIPTS_DB=before)


@contextmanager
def reading(config: Path) -> Iterator[None]:
    """Within this block both sides look here for sessions."""
    before = os.environ.get("CLAUDE_CONFIG_DIR")
    os.environ["CLAUDE_CONFIG_DIR"] = str(config)
    try:
        yield
    finally:
        os.environ.pop("CLAUDE_CONFIG_DIR") if before is None else os.environ.update(CLAUDE_CONFIG_DIR=before)


def asked(folder: Path, sessions: int, sizes: list[int], sdk: ModuleType) -> Iterator[Question]:
    """All that is timed, on sessions made for it."""
    config = folder / "list"
    tell(f"writing {sessions:,} sessions")
    tool = Path(__file__).parent.with_name("make_corpus")
    options = ["--size", f"{max(1, sessions * MOST_BYTES // 1_000_000)}MB", "--files", str(sessions)]
    subprocess.run([sys.executable, tool, config, *options], check=True, stdout=subprocess.PIPE)
    with reading(config):
        one = sdk.list_sessions(limit=1)[0].session_id
    many = f"{sessions:,} sessions"
    yield Question("list", many, config, lambda functions: functions.list_sessions(), 30)
    yield Question("info", many, config, lambda functions: [functions.get_session_info(one)], None)
    for size in sizes:
        made = make_session(folder, size)
        with reading(made.config):
            last = max(0, len(sdk.get_session_messages(made.id)) - PAGE)
        of = f"{size:,}, {made.path.stat().st_size / 1e6:,.1f} MB"
        pages = 100 if size == sizes[-1] else None
        yield Question("all messages", of, made.config, messages(made.id), 2)
        yield Question(f"first {PAGE}", of, made.config, messages(made.id, limit=PAGE), pages)
        yield Question(f"last {PAGE}", of, made.config, messages(made.id, limit=PAGE, offset=last), pages)


def messages(session: str, **page: int) -> Callable[[ModuleType], Sequence[Any]]:
    return lambda functions: functions.get_session_messages(session, **page)  # type: ignore[no-any-return]


def timed(question: Question, functions: ModuleType, before: Callable[[], None] = lambda: None) -> Run:
    """A run of a call; what comes `before` each is timed with it."""

    def call() -> Sequence[Any]:
        before()
        return question.call(functions)

    return here(call, around=lambda: reading(question.config))


def check(question: Question, sdk: ModuleType, ours: ModuleType) -> None:
    """That both sides tell of the same sessions and messages; of a list that none is missing here. Imports what there is."""
    tell(f"importing for {question.asked} of {question.of}")
    theirs, found = ({identity(given) for given in question.call(functions)} for functions in (sdk, ours))
    if not theirs <= found or (question.asked != "list" and theirs != found):
        raise SystemExit(f"{question.asked} of {question.of} is not the same on both sides; there is nothing to compare")


def identity(given: Any) -> str:
    return str(getattr(given, "uuid", None) or given.session_id)


def table(timings: Timings[Cell], questions: list[Question]) -> str:
    rows = []
    for question in questions:
        cells: dict[str, Cell] = {who: (*question.key, who) for who in (THEIRS, FIRST, OURS)}
        ratios = {who: timings.ratio(cells[who], cells[THEIRS]) for who in (FIRST, OURS)}
        goal = ""
        if question.goal:
            goal = f"≤ 1/{question.goal}: {'reached' if ratios[OURS] <= 1 / question.goal else 'missed'}"
        times = [seconds(timings.wall(cell)) for cell in cells.values()]
        rows.append([question.asked, question.of, *times, part(ratios[FIRST]), part(ratios[OURS]), goal])
    head = ["call", "of", "SDK", "first call here", "later calls", "first, as part", "later, as part", "goal of later calls"]
    return markdown(head, rows, range(1, len(head) - 1))
