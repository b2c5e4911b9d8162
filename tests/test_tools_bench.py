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
