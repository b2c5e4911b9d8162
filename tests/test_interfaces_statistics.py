"""`stats` on the command line: tables that fit, exact numbers for programs, charts, and the truth about prices."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builders import CASES, Home
from tests.shell import objects, run
from tests.test_sessions_analytics import COST_HAIKU, COST_OPUS, INPUT, OUTPUT, UNPRICED, build
from transcripts.index.zones import named
from transcripts.interfaces.cli.statistics import short
from transcripts.interfaces.local_zone import local_zone

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def corpus(home: Home, apart: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    build(home)
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    monkeypatch.delenv("COLUMNS", raising=False)
    return home


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the command see a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)

    return of


def test_a_pipe_gets_exact_numbers_and_no_bars(corpus: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("stats", "--by", "model")
    monkeypatch.setenv("COLUMNS", "30")
    assert f"{OUTPUT:,}" in run("stats", "--by", "model").stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["model", "replies", "input", "output", "thinking", "cache", "read", "cache", "write", "cost"]
    total = {"cost": lines[-1][-1], "output": lines[-1][3], "read": lines[-1][5]}
    assert total == {"cost": f"${COST_OPUS + COST_HAIKU:.4f}+", "output": f"{OUTPUT:,}", "read": "20,000"}
    assert ["glm-5", "2", "300", "15", "-", "0", "0", "?"] in lines
    assert f"Of {UNPRICED} tokens no price is known" in done.stderr
    assert "Of 1 reply the final numbers were never written" in done.stderr
    assert "Prices: the shipped ones, of " in done.stderr


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("by", ["day", "week", "month", "project", "model", "tool", "session"])
def test_a_table_fits_the_terminal(corpus: Home, terminal: Any, columns: int, by: str) -> None:
    terminal(columns)
    done = run("stats", "--by", by)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[-1].startswith("total")
    numbers = (line[40:] for line in lines)
    assert not any("…" in line for line in numbers)  # only names are cut
    assert "█" in done.stdout or (by == "session" and columns == 80)


def test_a_terminal_gets_the_newest_days_and_a_line_of_all(home: Home, terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with home.open() as index:
        index.sync([CASES / "genuine", *CASES.glob("faults/*/projects")])
        days = [row.name for row in index.stats("day").rows]
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    monkeypatch.setenv("TZ", "UTC")
    terminal(80)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", run("stats", "--limit", "3", "--no-sync").stdout).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == days[-3:]
    assert lines[0].endswith(str(days[-1]))


def test_json_has_all_numbers_and_ends_with_the_total(corpus: Home) -> None:
    *rows, total = objects("stats", "--by", "session")
    assert {row["by"] for row in rows} == {"session"}
    assert sum(row["output_tokens"] for row in rows) == total["output_tokens"] == OUTPUT
    assert (total["by"], total["name"], total["prices"]) == ("total", None, "shipped")
    assert total["cost_usd"] == pytest.approx(COST_OPUS + COST_HAIKU)
    *rows, total = objects("stats", "--by", "tool")
    assert [(row["name"], row["calls"]) for row in rows] == [("Bash", 2), ("Read", 1)]
    assert total["calls"] == 3


def test_csv_has_all_numbers(corpus: Home) -> None:
    rows = list(csv.DictReader(io.StringIO(run("stats", "--csv").stdout)))
    assert sum(int(row["output_tokens"]) for row in rows) == OUTPUT
    assert sum(int(row["input_tokens"]) for row in rows) == INPUT
    assert [row["day"] for row in rows] == ["2026-03-01"]


@pytest.mark.parametrize("by", ["day", "month", "project", "model", "tool", "session"])
def test_a_chart_is_a_new_file(corpus: Home, tmp_path: Path, by: str) -> None:
    path = tmp_path / "chart.png"
    assert run("stats", "--by", by, "--png", path).exit_code == 0
    assert path.read_bytes().startswith(PNG)
    again = run("stats", "--by", by, "--png", path)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)


def test_without_the_plotting_library_it_says_what_to_install(
    corpus: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("stats", "--png", tmp_path / "chart.png")
    assert (done.exit_code, "pip install 'transcripts[plot]'" in done.stderr) == (2, True)


def test_prices_of_a_file_are_kept_and_shipped_ones_come_back(corpus: Home, tmp_path: Path) -> None:
    rest = {"output": 0, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}
    table = {"date": "2026-01-01", "prices": [{"models": ["glm-5"], "input": 1_000_000, **rest}]}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(table))
    assert f"{path}, of 2026-01-01" in run("stats", "--prices", path).stderr
    assert objects("stats")[-1]["cost_usd"] == 300
    assert objects("stats", "--prices", "shipped")[-1]["cost_usd"] == pytest.approx(COST_OPUS + COST_HAIKU)
    assert (run("stats", "--prices", tmp_path / "none").exit_code) == 2


def test_days_are_those_of_the_users_zone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    with home.open() as index:
        index.sync([CASES / "faults" / "timezone-days" / "projects"])
    for zone, days in (("Asia/Seoul", ["2026-03-24", "2026-03-29"]), ("America/Los_Angeles", ["2026-03-23", "2026-03-28"])):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        *rows, total = objects("stats", "--no-sync")
        assert ([row["name"] for row in rows], total["zone"]) == (days, zone)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("given", "name", "like"),
    [
        ("Europe/Berlin", "Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin", "Europe/Berlin"),
        (":/usr/share/zoneinfo/Asia/Kolkata", "Asia/Kolkata", "Asia/Kolkata"),
        ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0", "America/New_York"),
    ],
)
def test_the_zone_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, given: str, name: str, like: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", given)
        time.tzset()
        zone = local_zone()
    time.tzset()
    assert (zone.name, zone.offsets) == (name, named(like).offsets)


def test_nothing_found_is_told(corpus: Home) -> None:
    assert (run("stats", "--project", "nowhere").exit_code, run("stats", "--json", "--csv").exit_code) == (1, 2)


@pytest.mark.parametrize(
    ("number", "told"),
    [(None, "0"), (0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (99_949, "99.9k"), (99_950, "100k"),
     (999_499, "999k"), (999_500, "1.0M"), (4_560_000, "4.6M"), (5_000_000_000, "5.0G"), (1_200_000_000_000, "1200G")],
)  # fmt: skip
def test_numbers_for_people_have_three_digits(number: int | None, told: str) -> None:
    assert short(number) == told
