"""A chart of an answer of `stats` as a PNG, by the plotting library of the extra `plot`.

Invariants:
- A file that is there is never written over.
- No text of a transcript is taken for a formula, and a sign that the font lacks is no fault.
"""

from __future__ import annotations

import io
import warnings
from datetime import date
from typing import TYPE_CHECKING, Any

from transcripts.errors import FileExists, InvalidRequest
from transcripts.interfaces.cli.output import home_shortened, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from transcripts.sessions.analytics import Stats

_LARGEST = 20  # bars, where they are not times
_LABELS = 15  # names below an axis of times
_KINDS = {
    "input": ("input_tokens",),
    "output": ("output_tokens",),
    "written to the cache": ("cache_write_5m_tokens", "cache_write_1h_tokens"),
}
_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c7c7c7")
_DOTS = 144  # an inch


def draw(found: Stats, path: str) -> None:
    """Draw the answer into a new file. Raises FileExists, and InvalidRequest where the library is missing or nothing is there."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidRequest("--png needs a plotting library: pip install 'transcripts[plot]'") from None
    if not found.rows:
        raise InvalidRequest("there is nothing to draw")
    picture = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"text.parse_math": False, "font.size": 9}):
        warnings.simplefilter("ignore")  # a sign that the font lacks is drawn as a box
        if found.by in ("day", "week", "month"):
            figure = Figure(figsize=(10, 7), layout="constrained")
            _over_time(found, *figure.subplots(3, 1, sharex=True, height_ratios=(2, 1, 1)))
        else:
            figure = Figure(figsize=(10, 1.4 + 0.28 * min(len(found.rows), _LARGEST)), layout="constrained")
            _side_by_side(found, *figure.subplots(1, 2, sharey=True))
        if unpriced := getattr(found.total, "unpriced_tokens", 0):
            figure.supxlabel(f"Of {unpriced:,} tokens no price is known; they are in no cost.", fontsize=8)
        figure.savefig(picture, format="png", dpi=_DOTS)
    try:
        with open(path, "xb") as file:
            file.write(picture.getvalue())
    except FileExistsError:
        raise FileExists(f"{path} is there already; name a new file") from None


def _over_time(found: Stats, fresh: Axes, cached: Axes, cost: Axes) -> None:
    """Tokens by kind; what was read from the cache on its own, since it would dwarf them; and the cost."""
    rows: Any = [row for row in found.rows if row.name is not None]
    places, names = [*range(len(rows))], {at: row.name for at, row in enumerate(rows)}
    if found.by == "day" and rows:  # days on which nothing was said leave a gap
        places = [date.fromisoformat(row.name).toordinal() for row in rows]
        names = {day: str(date.fromordinal(day)) for day in range(places[0], places[-1] + 1)}
    floor = [0.0] * len(rows)
    for (kind, fields), colour in zip(_KINDS.items(), _COLOURS, strict=False):
        sizes = [float(sum(getattr(row, name) for name in fields)) for row in rows]
        fresh.bar(places, sizes, bottom=floor, label=kind, color=colour, width=0.85)
        floor = [low + size for low, size in zip(floor, sizes, strict=True)]
    fresh.set_title(f"Tokens by {found.by}")
    fresh.legend(frameon=False, ncols=len(_KINDS))
    cached.bar(places, [row.cache_read_tokens for row in rows], color=_COLOURS[3], width=0.85)
    cached.set_title("Tokens read from the cache")
    cost.bar(places, [row.cost_usd or 0 for row in rows], color=_COLOURS[0], width=0.85)
    cost.set_title("Cost, USD")
    step = max(1, -(-len(names) // _LABELS))
    cost.set_xticks([*names][::step], [*names.values()][::step], rotation=30, ha="right")
    for axes in (fresh, cached, cost):
        _plain(axes, lying=False)


def _side_by_side(found: Stats, left: Axes, right: Axes) -> None:
    rows: Any = found.rows[:_LARGEST][::-1]
    names = [_label(found.by, row) for row in rows]
    places = range(len(rows))
    if found.by == "tool":
        left.barh(places, [row.calls for row in rows], color=_COLOURS[0], label="calls")
        left.barh(places, [row.errors for row in rows], color=_COLOURS[1], label="errors")
        left.set_title("Calls")
        left.legend(frameon=False, loc="lower right")
        right.barh(places, [(row.p95_duration or 0) / 1000 for row in rows], color=_COLOURS[3], label="95 % took at most")
        right.barh(places, [(row.median_duration or 0) / 1000 for row in rows], color=_COLOURS[2], label="half took at most")
        right.set_title("Seconds")
        right.set_xscale("log")
        right.legend(frameon=False, loc="lower right")
    else:
        left.barh(places, [row.total_tokens for row in rows], color=_COLOURS[0])
        left.set_title(f"Tokens by {found.by}")
        right.barh(places, [row.cost_usd or 0 for row in rows], color=_COLOURS[1])
        right.set_title("Cost, USD")
    left.set_yticks(list(places), names)
    for axes in (left, right):
        _plain(axes, lying=True)


def _label(by: str, row: Any) -> str:
    if row.name is None:
        return "(unknown)"
    named = {"session": f"{row.name[:8]} {getattr(row, 'title', '') or ''}", "project": home_shortened(row.name)}
    text = one_line(named.get(by, row.name))
    return "…" + text[-39:] if by == "project" and len(text) > 40 else one_line(text, 40)


def _plain(axes: Axes, lying: bool) -> None:
    from matplotlib.ticker import EngFormatter

    axes.spines[["top", "right"]].set_visible(False)
    (axes.xaxis if lying else axes.yaxis).set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="x" if lying else "y", color="#e5e5e5")
    axes.set_axisbelow(True)
    if lying:
        axes.margins(y=0.01)
    else:
        axes.margins(x=0.01)
