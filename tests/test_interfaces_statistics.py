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

from tests.builders import CASES, Home, Log, call, result, session_id, stamp
from tests.shell import objects, run
from tests.test_sessions_analytics import COST_HAIKU, COST_OPUS, INPUT, OPUS, OTHER, OUTPUT, UNPRICED, build, reply, usage
from transcripts.index.zones import named
from transcripts.interfaces.cli.statistics import cut_front, short, steps
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
    assert [row["day"] for row in rows] == ["2026-03-01", "2026-03-02"]


@pytest.mark.parametrize("by", ["day", "month", "project", "model", "tool", "session"])
def test_a_chart_is_a_new_file(corpus: Home, tmp_path: Path, by: str) -> None:
    path = tmp_path / "chart.png"
    assert run("stats", "--by", by, "--png", path).exit_code == 0
    assert path.read_bytes().startswith(PNG)
    again = run("stats", "--by", by, "--png", path)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)


# -- what a chart shows ----------------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(home: Home, apart: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Let the command draw a chart of some sessions; the figure, with its fonts."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    figures: list[Any] = []

    def kept(figure: Figure, *given: Any, **named: Any) -> None:
        savefig(figure, *given, **named)
        figure.draw_without_rendering()
        figures.append((figure, [*rcParams["font.family"]]))

    savefig = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", kept)
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))

    def of(by: str, *logs: Log) -> Any:
        for log in logs:
            home.write(log)
        home.sync()
        done = run("stats", "--no-sync", "--by", by, "--png", tmp_path / f"{len(figures)}.png")
        assert done.exit_code == 0, done.stderr
        return figures[-1]

    return of


def days(*ordinals: float, model: str = OPUS, read: int = 5000) -> Log:
    """A session with a reply on each of these days, counted from 2026-03-01."""
    log = Log()
    for at, day in enumerate(ordinals):
        reply(log, f"msg_{at}", usage(100, 10, read=read), model=model, timestamp=stamp(day * 86_400))
    return log


def shares(axes: Any) -> list[float]:
    """The width of each bar, as a share of the axes'."""
    whole = axes.get_window_extent().width
    return [bar.get_window_extent().width / whole for bar in axes.patches]


def ticks(axis: Any) -> list[str]:
    return [tick.label1.get_text() for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())]


@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_a_single_day_is_a_bar_and_no_wall(drawn: Any, by: str) -> None:
    figure, _fonts = drawn(by, days(0))
    assert all(0.01 < share < 0.2 for axes in figure.axes for share in shares(axes))


def test_a_bar_is_seen_however_long_the_time_is(drawn: Any) -> None:
    figure, _fonts = drawn("day", days(0, 20 * 365))
    assert all(share * 1300 > 2 for axes in figure.axes for share in shares(axes))


@pytest.mark.parametrize(("by", "apart"), [("day", 70), ("week", 10), ("month", 2)])
def test_times_in_which_nothing_was_said_leave_a_gap(drawn: Any, terminal: Any, by: str, apart: int) -> None:
    figure, _fonts = drawn(by, days(0, 70))
    first, last = (bar.get_x() for bar in figure.axes[1].patches)
    assert last - first == apart
    terminal(160)
    assert f"█{' ' * (apart - 1)}█" in run("stats", "--by", by, "--no-sync").stdout


@pytest.mark.parametrize("by", ["day", "model"])
@pytest.mark.parametrize("size", [0, 1])
def test_no_axis_goes_below_nothing_or_tells_thousandths(drawn: Any, by: str, size: int) -> None:
    log = days(0, 1, read=0) if size else Log()
    reply(log, "syn", usage(0, 0), model="<synthetic>")
    figure, _fonts = drawn(by, log)
    for axes in figure.axes:
        axis, (low, _high) = (axes.yaxis, axes.get_ylim()) if by == "day" else (axes.xaxis, axes.get_xlim())
        assert low == 0
        assert all(re.fullmatch(r"[\d.]+", told) for told in ticks(axis) if told), ticks(axis)


@pytest.mark.parametrize("longest", [0, 8, 20, 90_000])
def test_seconds_are_plain_numbers(drawn: Any, longest: int) -> None:
    log = Log()
    log.assistant([call("t1"), call("t2", "Read"), call("t3", "Edit")], timestamp=stamp(0))
    if longest:
        log.user([result("t1")], timestamp=stamp(2))
        log.user([result("t2")], timestamp=stamp(longest))
    figure, _fonts = drawn("tool", log)
    found = [told for told in ticks(figure.axes[1].xaxis) if told]
    assert len(found) >= 2 and all(re.fullmatch(r"[\d.,]+", told) for told in found), found
    assert all(share > 0.05 for share in shares(figure.axes[1]) if share)


@pytest.mark.parametrize("by", ["day", "tool"])
def test_what_the_colours_mean_stands_on_no_bar_and_no_title(drawn: Any, by: str) -> None:
    log = days(0)
    log.assistant([call(f"t{at}", f"mcp__{at}_of_a_very_long_name__of_a_very_long_name") for at in range(3)])
    figure, _fonts = drawn(by, log)
    legends = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend()]
    assert legends
    for axes, legend in legends:
        box = legend.get_window_extent()
        assert box.y0 >= axes.get_window_extent().y1
        assert box.x0 > axes._left_title.get_window_extent().x1


def test_a_cost_that_is_not_known_is_marked(drawn: Any) -> None:
    priced, unpriced = days(0, 1), days(2, model=OTHER)
    figure, _fonts = drawn("model", Log(lines=priced.lines + unpriced.lines))
    assert [mark.get_text() for mark in figure.axes[1].texts] == ["?"]
    both = Log(session_id(2), first=50)
    reply(both, "a", usage(100, 10))
    reply(both, "b", usage(100, 10), model=OTHER)
    figure, _fonts = drawn("session", both)
    assert sorted(mark.get_text() for mark in figure.axes[1].texts) == ["+", "+"]


def test_what_is_not_drawn_is_told(drawn: Any, home: Home, tmp_path: Path) -> None:
    log = Log()
    log.assistant([call(f"t{at}", f"Tool{at}") for at in range(23)])
    figure, _fonts = drawn("tool", log)
    assert (len(figure.axes[0].get_yticks()), figure.get_supxlabel()) == (20, "The 20 largest of 23.")
    reply(log, "never", usage(1, 2), timestamp=None)
    home.write(log)
    home.sync()
    assert "there is nothing to draw" in run("stats", "--no-sync", "--png", tmp_path / "x.png").stderr
    figure, _fonts = drawn("week", Log(lines=log.lines + days(0).lines))
    assert figure.get_supxlabel() == "3 tokens are of no known week; they are not drawn."


def test_names_are_drawn_in_a_font_that_has_their_signs(drawn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.font_manager import FontEntry, findfont, fontManager

    here = FontEntry(fname=findfont("DejaVu Sans"), name="Noto Sans CJK JP")
    monkeypatch.setattr(fontManager, "ttflist", [font for font in fontManager.ttflist if font.name == "DejaVu Sans"] + [here])
    _figure, fonts = drawn("model", days(0))
    assert fonts == ["DejaVu Sans", "Noto Sans CJK JP"]


# -- names and times of any size -------------------------------------------------------------------------------------------


def test_wide_signs_count_twice(home: Home, apart: Path, terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/home/開発者/" + "資料保管庫と検索機能" * 3 + "/末尾"
    log = Log(common={"cwd": path})
    log.user("検索機能の実装をお願いします")
    reply(log, "msg", usage(1, 2), model="模型" * 6)
    home.write(log)
    home.sync()
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    monkeypatch.setenv("COLUMNS", "40")
    assert "模型" * 6 in run("stats", "--no-sync", "--by", "model").stdout
    assert path in run("stats", "--no-sync", "--by", "project").stdout
    for columns in (80, 160):
        terminal(columns)
        assert "検索機能/末尾 " in run("stats", "--no-sync", "--by", "project").stdout
    assert "検索機能の実装をお願いします " in run("stats", "--no-sync", "--by", "session").stdout
    assert "模型" * 6 in run("stats", "--no-sync", "--by", "model").stdout


@pytest.mark.parametrize(
    ("text", "cells", "told"),
    [("/a/b", 4, "/a/b"), ("/a/bc", 4, "…/bc"), ("/資料/庫", 8, "/資料/庫"), ("/資料/庫", 7, "…料/庫"), ("/資料/庫", 6, "…料/庫"),
     ("/資料/庫", 5, "…/庫"), ("", 5, "")],
)  # fmt: skip
def test_the_end_of_a_path_stays(text: str, cells: int, told: str) -> None:
    assert cut_front(text, cells) == told


def test_steps_are_all_times_between() -> None:
    assert steps("day", ["2024-03-01", "2024-02-28"]) == ["2024-02-28", "2024-02-29", "2024-03-01"]
    assert steps("week", ["2026-W52", "2027-W01"]) == ["2026-W52", "2026-W53", "2027-W01"]
    assert steps("month", ["2025-11", "2026-02"]) == ["2025-11", "2025-12", "2026-01", "2026-02"]
    assert steps("month", ["2025-12"]) == ["2025-12"]


def test_one_time_has_no_line(home: Home, apart: Path, terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = days(0)
    reply(log, "never", usage(1, 2), timestamp=None)
    home.write(log)
    home.sync()
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    terminal(80)
    assert re.sub(r"\x1b\[[0-9;]*m", "", run("stats", "--no-sync").stdout).startswith("day ")


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
