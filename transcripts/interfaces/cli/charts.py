"""A chart of an answer of `stats` as a PNG, by the plotting library of the extra `plot`.

Invariants:
- A file that is there is never written over.
- No text of a transcript is taken for a formula, and a sign that no font has is no fault.
- What is there is seen: a bar has a width however long the time is, a cost that is not known is marked, and what is left out
  is told below.
"""

from __future__ import annotations

import io
import math
import warnings
from typing import TYPE_CHECKING, Any

from transcripts.errors import FileExists, InvalidRequest
from transcripts.interfaces.cli.output import cut, home_shortened, one_line
from transcripts.interfaces.cli.statistics import TIMES, cut_front, steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from transcripts.sessions.analytics import Stats

_LARGEST = 20  # bars, where they are not times
_LABELS = 15  # names below an axis of times
_NAME = 40  # columns of a name beside a bar
_FEWEST = 10  # times that an axis has room for, so that a single day is a bar and no wall
_FINEST = 500  # a bar is at least so small a part of an axis
_KINDS = {
    "input": ("input_tokens",),
    "output": ("output_tokens",),
    "written to the cache": ("cache_write_5m_tokens", "cache_write_1h_tokens"),
}
_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c7c7c7")
_DOTS = 144  # an inch
_FONT = "DejaVu Sans"  # comes with the library
_MORE_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC", "PingFang SC", "Hiragino Sans",
    "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Arial Unicode MS",
)  # fmt: skip


def draw(found: Stats, path: str) -> None:
    """Draw the answer into a new file. Raises FileExists, and InvalidRequest where the library is missing or nothing is there."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidRequest("--png needs a plotting library: pip install 'transcripts[plot]'") from None
    rows: Any = [row for row in found.rows if row.name is not None] if found.by in TIMES else found.rows[:_LARGEST]
    if not rows:
        raise InvalidRequest("there is nothing to draw")
    picture = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"text.parse_math": False, "font.size": 9, "font.family": _fonts()}):
        warnings.simplefilter("ignore")  # a sign that no font has is drawn as a box
        if found.by in TIMES:
            figure = Figure(figsize=(10, 7), layout="constrained")
            _over_time(found.by, rows, *figure.subplots(3, 1, sharex=True, height_ratios=(2, 1, 1)))
        else:
            figure = Figure(figsize=(10, 1.4 + 0.28 * len(rows)), layout="constrained")
            _side_by_side(found.by, rows[::-1], *figure.subplots(1, 2, sharey=True))
        if notes := _notes(found, len(rows)):
            figure.supxlabel(" ".join(notes), fontsize=8)
        figure.savefig(picture, format="png", dpi=_DOTS)
    try:
        with open(path, "xb") as file:
            file.write(picture.getvalue())
    except FileExistsError:
        raise FileExists(f"{path} is there already; name a new file") from None


def _fonts() -> list[str]:
    """The library's own font, and behind it those of this computer that have Chinese, Japanese and Korean signs."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [_FONT, *(name for name in _MORE_FONTS if name in installed)]


def _notes(found: Stats, shown: int) -> list[str]:
    notes = []
    if found.by not in TIMES and shown < len(found.rows):
        notes.append(f"The {shown} largest of {len(found.rows):,}.")
    if found.by in TIMES and shown < len(found.rows):
        without: Any = next(row for row in found.rows if row.name is None)
        notes.append(f"{without.total_tokens:,} tokens are of no known {found.by}; they are not drawn.")
    if unpriced := getattr(found.total, "unpriced_tokens", 0):
        notes.append(f"Of {unpriced:,} tokens no price is known; they are in no cost.")
    return notes


def _over_time(by: str, rows: Any, fresh: Axes, cached: Axes, cost: Axes) -> None:
    """Tokens by kind; what was read from the cache on its own, since it would dwarf them; and the cost."""
    names = steps(by, [row.name for row in rows])
    known = {name: place for place, name in enumerate(names)}
    places = [known[row.name] for row in rows]
    width = max(0.85, len(names) / _FINEST)
    floor = [0.0] * len(rows)
    for (kind, fields), colour in zip(_KINDS.items(), _COLOURS, strict=False):
        sizes = [float(sum(getattr(row, name) for name in fields)) for row in rows]
        fresh.bar(places, sizes, bottom=floor, label=kind, color=colour, width=width)
        floor = [low + size for low, size in zip(floor, sizes, strict=True)]
    cached.bar(places, [row.cache_read_tokens for row in rows], color=_COLOURS[3], width=width)
    cost.bar(places, [row.cost_usd or 0 for row in rows], color=_COLOURS[0], width=width)
    for axes, title in ((fresh, f"Tokens by {by}"), (cached, "Tokens read from the cache"), (cost, "Cost, USD")):
        _plain(axes, title, "y")
        _count_on(axes.yaxis) if axes is not cost else _measure_on(axes.yaxis)
        axes.set_ylim(bottom=0, top=None if axes.dataLim.y1 > 0 else 1)
    _explain(fresh)
    room = max(0.5, width / 2, (_FEWEST - len(names)) / 2) + 0.1
    cost.set_xlim(-room, len(names) - 1 + room)
    step = -(-len(names) // _LABELS)
    cost.set_xticks(range(0, len(names), step), names[::step], rotation=30, ha="right")


def _side_by_side(by: str, rows: Any, left: Axes, right: Axes) -> None:
    places = range(len(rows))
    if by == "tool":
        left.barh(places, [row.calls for row in rows], color=_COLOURS[0], label="calls")
        left.barh(places, [row.errors for row in rows], color=_COLOURS[1], label="errors")
        right.barh(places, [(row.p95_duration or 0) / 1000 for row in rows], color=_COLOURS[3], label="95 %")
        right.barh(places, [(row.median_duration or 0) / 1000 for row in rows], color=_COLOURS[2], label="half")
        _plain(left, "Calls", "x")
        _plain(right, "Seconds, at most", "x")
        _explain(left)
        _explain(right)
    else:
        left.barh(places, [row.total_tokens for row in rows], color=_COLOURS[0])
        right.barh(places, [row.cost_usd or 0 for row in rows], color=_COLOURS[1])
        for place, row in zip(places, rows, strict=True):
            if row.unpriced_tokens:
                mark, end = ("?", 0) if row.cost_usd is None else ("+", row.cost_usd)
                right.annotate(mark, (end, place), (3, 0), textcoords="offset points", va="center")
        _plain(left, f"Tokens by {by}", "x")
        _plain(right, "Cost, USD", "x")
    left.set_yticks(list(places), [_label(by, row) for row in rows])
    _count_on(left.xaxis)
    _measure_on(right.xaxis)
    for axes in (left, right):
        axes.margins(y=0.01)
        axes.set_xlim(left=0, right=None if axes.dataLim.x1 > 0 else 1)
    if by == "tool":
        _as_logarithms(right, [row.median_duration / 1000 for row in rows if row.median_duration])


def _label(by: str, row: Any) -> str:
    if row.name is None:
        return "(unknown)"
    named = {"session": f"{row.name[:8]} {getattr(row, 'title', '') or ''}", "project": home_shortened(row.name)}
    text = one_line(named.get(by, row.name))
    return cut_front(text, _NAME) if by == "project" else cut(text, _NAME)


def _plain(axes: Axes, title: str, measured: Any) -> None:
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=measured, color="#e5e5e5")
    axes.set_axisbelow(True)


def _explain(axes: Axes) -> None:
    """Tell the colours beside the title, where no bar is behind."""
    axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)


def _count_on(axis: Axis) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(EngFormatter(sep=""))


def _measure_on(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.10g}"))


def _as_logarithms(axes: Axes, shortest: list[float]) -> None:
    """Let the bars of seconds begin at a power of ten below the shortest, if any is timed."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if not shortest:
        return
    begin, end = 10.0 ** math.floor(math.log10(min(shortest) / 2)), axes.dataLim.x1 * 1.1
    axes.set_xscale("log")
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if end / begin < 300 else (1,)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    _measure_on(axes.xaxis)
