"""tools/bench: each subcommand runs and prints its table. Times are looked at by people, never asserted."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parent.parent / "tools" / "bench"
TIME = r"[\d.]+ m?s"
RESUME_GOALS = {
    "(a) orjson over the whole file, then the walk": "",
    "(b) claude_agent_sdk, all messages": "",
    "(b) claude_agent_sdk, the last page of 20": "",
    "chain, raw lines from the live file": "≤ 1/3 of (a)",
    "chain, raw lines from the chunks": "≤ 1/2 of (a)",
    "chain, decoded, from the live file": "",
    "the last 20, decoded, from the live file": "flat",
    "chain without bodies": "growth ≤ 12 for 10 times",
}


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *options], capture_output=True, text=True, check=False)


def measuring() -> ModuleType:
    """The module of the tool that starts and times processes."""
    spec = spec_from_file_location("timing", TOOL.parent / "benches" / "timing.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in markdown.splitlines() if line.startswith("|")]


class TestResume:
    def test_prints_each_way_to_the_chain_its_goals_and_what_was_timed_on_what(self) -> None:
        run = bench("resume", "--quick", "--no-sdk", "--sizes", "40", "20", "--rounds", "1")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head[:4] == ["messages", "20", "40", "CPU at 40"]
        assert {row[0]: row[-1].partition(":")[0] for row in rows} == RESUME_GOALS
        for row in rows:
            assert len(row) == len(head)
            if row[0].startswith("(b)"):
                assert row[1:3] == ["not timed", "not timed"]
            else:
                assert all(re.fullmatch(r"[\d.]+ m?s", time) for time in row[1:4])
        assert "was not timed: as asked" in run.stdout
        assert "`tools/bench resume --quick --no-sdk --sizes 40 20 --rounds 1` on " in run.stdout
        for name in ("cores", "Python", "SQLite", "orjson"):
            assert name in run.stdout
        assert str(Path.home()) not in run.stdout

    def test_refuses_sizes_that_are_none(self) -> None:
        run = bench("resume", "--sizes", "0")
        assert run.returncode == 2
        assert "'0' is no number from 1 on" in run.stderr


class TestSdk:
    def test_prints_each_call_on_both_sides_and_its_goal(self) -> None:
        run = bench("sdk", "--sessions", "10", "--sizes", "10", "30", "--rounds", "1")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head[2:5] == ["SDK", "first call here", "later calls"]
        calls = ["list", "info", *["all messages", "first 20", "last 20"] * 2]
        goals = ["≤ 1/30", "", "≤ 1/2", "", "", "≤ 1/2", "≤ 1/100", "≤ 1/100"]
        assert [(row[0], row[-1].partition(":")[0]) for row in rows] == list(zip(calls, goals, strict=True))
        assert [row[1].partition(" ")[0] for row in rows] == ["10", "10", *["10,"] * 3, *["30,"] * 3]
        for row in rows:
            assert all(re.fullmatch(r"[\d.]+ m?s", time) for time in row[2:5])
        assert "`tools/bench sdk --sessions 10 --sizes 10 30 --rounds 1` on " in run.stdout
        assert "claude_agent_sdk" in run.stdout
        assert str(Path.home()) not in run.stdout


class TestSearch:
    def test_prints_each_query_at_both_sizes_and_what_reads_the_files(self) -> None:
        run = bench("search", "--size", "600KB", "--rounds", "1", "--no-duckdb")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head[2:4] == ["best at 0 MB", "best at 1 MB"]
        assert [row[0] for row in rows][:4] == ["rare word", "word in 1 %", "word in 10 %", "word in 50 %"]
        assert all(re.fullmatch(r"[\d.]+ m?s", time) for row in rows for time in row[2:])
        for words in (
            "Median of all 33",
            "(goal 50.0 ms: ",
            "The freshness scan",
            "The whole database",
            "grep for the rare word",
        ):
            assert words in run.stdout
        assert str(Path.home()) not in run.stdout


class TestAnalytics:
    def test_prints_each_question_at_both_sizes(self) -> None:
        run = bench("analytics", "--size", "600KB", "--rounds", "1", "--no-duckdb")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head == ["question", "0 MB", "1 MB", "DuckDB over the files"]
        assert [row[0] for row in rows] == ["daily usage", "models", "tools", "top files"]
        assert all(re.fullmatch(r"[\d.]+ m?s", time) for row in rows for time in row[1:3])
        for words in ("Goal 50.0 ms each at 1 MB: reached.", "`stats` with its rows as objects"):
            assert words in run.stdout
        assert str(Path.home()) not in run.stdout


class TestAppend:
    def test_prints_both_batches_to_each_place_and_their_goals(self) -> None:
        run = bench("append", "--size", "600KB", "--quick", "--rounds", "1")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head == [
            "entries",
            "plainly",
            "FTS5 alone",
            "an empty database",
            "one of 1 MB",
            "there, a session of 1,000",
            "goal",
        ]
        assert [(row[0], row[-1].partition(":")[0]) for row in rows] == [("1", "≤ 5.00 ms more"), ("100", "≤ 2 times")]
        assert all(re.fullmatch(r"[\d.]+ m?s", time) for row in rows for time in row[1:5])
        assert "`tools/bench append --size 600KB --quick --rounds 1` on " in run.stdout
        assert "claude_agent_sdk" in run.stdout
        assert str(Path.home()) not in run.stdout


class TestImport:
    def test_prints_what_each_cost_and_which_goals_were_reached(self) -> None:
        run = bench("import", "--quick", "--size", "600KB", "--rounds", "1")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head[1:3] == ["wall at 0.6 MB", "wall at 0.1 MB"]
        own = ["transcripts", "FTS5 alone", "reading the bytes", "orjson over all lines"]
        assert [row[0] for row in rows][:5] == [*own, "agentsview 0.46.1"]
        for row in rows[:4]:
            assert all(re.fullmatch(TIME, row[column]) for column in (1, 2, 4))
            assert re.fullmatch(r"[\d.]+ MB", row[5])
        assert rows[0][-1] == "results after 100,000 characters"
        assert all(row[1] == "-" for row in rows[4:])
        for words in (
            "at most 1.4 times FTS5 alone: ",
            "less than 300 MB of memory: ",
            "SQL work after at most 0.25 of the time: ",
        ):
            assert words in run.stdout
        assert "`tools/bench import --quick --size 600KB --rounds 1` on " in run.stdout
        assert str(Path.home()) not in run.stdout

    def test_refuses_a_size_that_is_none(self) -> None:
        run = bench("import", "--size", "much")
        assert run.returncode == 1
        assert "'much' is no size such as" in run.stderr


class TestNoop:
    def test_prints_each_sync_and_command_at_both_sizes_and_its_goal(self) -> None:
        run = bench("noop", "--size", "600KB", "--sessions", "6", "--rounds", "1", "--no-peers")
        assert run.returncode == 0, run.stderr
        rows = cells(run.stdout)
        goals = ["", "≤ 2.5 times the scan", "≤ 3 times the scan", "≤ 5 ms", "≤ 5 ms", "≤ 150 ms"]
        assert [row[-1].partition(":")[0] for row in rows[2:8]] == goals
        assert all(re.fullmatch(TIME, time) for row in rows[2:8] for time in row[1:4])
        load, ours, *others = rows[10:]
        assert all(re.fullmatch(TIME, time) for row in (load, ours) for time in row[1:6])
        assert ours[0] == "`transcripts sync`"
        assert "over the imports: " in ours[-1]
        assert all(row[1] == "-" for row in others)
        assert str(Path.home()) not in run.stdout


class TestList:
    def test_prints_each_way_to_the_list_at_both_sizes(self) -> None:
        run = bench("list", "--sessions", "10", "--rounds", "1", "--no-peers")
        assert run.returncode == 0, run.stderr
        head, _rule, *rows = cells(run.stdout)
        assert head[1:3] == ["1 sessions", "10 sessions"]
        assert all(re.fullmatch(TIME, time) for row in rows[:4] for time in row[1:3])
        assert [row[-1] for row in rows] == ["10", "10", "10", "10", "-"]
        assert "Goal 5.00 ms for 10 sessions: " in run.stdout
        assert "`transcripts list --json --no-sync` " in run.stdout
        assert str(Path.home()) not in run.stdout


class TestExport:
    def test_prints_exports_beside_reading_and_copying(self) -> None:
        run = bench("export", "--size", "600KB", "--rounds", "1", "--no-peers")
        assert run.returncode == 0, run.stderr
        rows = cells(run.stdout)
        assert [row[0] for row in rows[2:6]] == [
            "reading the files",
            "copying the files",
            "`Index.export` into memory",
            "`Index.export` into new files, each synced to the disk",
        ]
        assert all(re.fullmatch(TIME, time) for row in rows[2:6] for time in row[1:3])
        assert [row[0] for row in rows[8:]] == ["`cp`", "`transcripts export`"]
        assert str(Path.home()) not in run.stdout


class TestProcess:
    def test_tells_what_a_process_and_what_it_started_cost(self, tmp_path: Path) -> None:
        program = "import subprocess, sys; subprocess.run([sys.executable, '-c', \"x = b'1' * 100_000_000; print(len(x))\"])"
        spent = measuring().process([sys.executable, "-c", program], out=tmp_path / "out")
        assert (tmp_path / "out").read_text() == "100000000\n"
        assert spent.status == 0
        assert spent.wall > 0
        assert 100_000_000 < spent.peak < 200_000_000

    def test_stops_what_takes_too_long(self) -> None:
        spent = measuring().process([sys.executable, "-c", "import time; time.sleep(987)"], limit=0.5)
        assert spent.status is None
        assert spent.wall < 60

    def test_tells_that_there_is_no_such_program(self) -> None:
        spent = measuring().process(["no-such-program"])
        assert (spent.status, spent.words) == (127, "No such file or directory")
