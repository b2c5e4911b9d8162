"""tools/bench: each subcommand runs and prints its table. Times are looked at by people, never asserted."""

import re
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "bench"
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
        assert head == ["entries", "plainly", "an empty database", "one of 1 MB", "there, a session of 1,000", "goal"]
        assert [(row[0], row[-1].partition(":")[0]) for row in rows] == [("1", "≤ 5.00 ms more"), ("100", "≤ 2 times")]
        assert all(re.fullmatch(r"[\d.]+ m?s", time) for row in rows for time in row[1:5])
        assert "`tools/bench append --size 600KB --quick --rounds 1` on " in run.stdout
        assert "claude_agent_sdk" in run.stdout
        assert str(Path.home()) not in run.stdout
