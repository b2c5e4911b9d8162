"""The table of prices: the one that is shipped, or a file of the user's in the same form (transcripts/prices.json tells it).

Invariants:
- Names of models are exact: a name that begins like another one has no price because of that.
- For one model, speed, moment and length of the prompt there is at most one price.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from transcripts.errors import InvalidRequest

SHIPPED = "shipped"
STANDARD = "standard"
SYNTHETIC = "<synthetic>"
"""The model of what the client itself puts in place of a reply: no model was asked, which costs nothing."""

EVER = 2**53  # in milliseconds and in tokens: more than there will be
KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")

Row = tuple[str, str, int, int, int, int, float, float, float, float, float, float]
"""A row of the table prices: model, speed, starts_at, prompt_above, ends_at, prompt_up_to, then USD for a million of each of
KINDS and of searches."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices: where it is from (`shipped`, or a path), of what day, its rows, and a digest of it all."""

    source: str
    date: str
    rows: tuple[Row, ...]
    digest: str


def shipped() -> Prices:
    """The prices that this release knows."""
    return _parsed(files("transcripts").joinpath("prices.json").read_bytes(), SHIPPED)


def load(path: str | os.PathLike[str]) -> Prices:
    """The prices in a file. Raises InvalidRequest, with the entry that is wrong."""
    place = os.path.abspath(path)
    try:
        with open(place, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InvalidRequest(f"the prices in {place} cannot be read ({error.strerror})") from None
    return _parsed(data, place)


def _parsed(data: bytes, source: str) -> Prices:
    try:
        table = json.loads(data)
        day = date.fromisoformat(table["date"]).isoformat()
        given, search = list(table["prices"]), _price(table.get("web_search", 0))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequest(
            f"{source} is no table of prices ({error!r}); transcripts/prices.json of the package is one"
        ) from None
    rows = _rows({"models": [SYNTHETIC], **dict.fromkeys(KINDS, 0)}, 0)
    for entry in given:
        try:
            new = _rows(entry, search)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidRequest(f"{source}: this price cannot be read ({error!r}): {json.dumps(entry)[:200]}") from None
        if again := next((row for row in new for other in rows if _overlap(row, other)), None):
            raise InvalidRequest(f"{source}: {again[0]} has two prices for the same time, speed and length of a prompt")
        rows += new
    return Prices(source, day, tuple(rows), blake2b(repr((source, day, rows)).encode(), digest_size=10).hexdigest())


def _rows(entry: dict[str, Any], search: float) -> list[Row]:
    begin, end = _millis(entry.get("from")) or 0, _millis(entry.get("until")) or EVER
    above, up_to = int(entry.get("prompt_above", -1)), int(entry.get("prompt_up_to", EVER))
    amounts = [_price(entry[kind]) for kind in KINDS]
    speed = str(entry.get("speed", STANDARD))
    return [(_name(model), speed, begin, above, end, up_to, *amounts, search * 1000) for model in entry["models"]]  # type: ignore[misc]


def _overlap(row: Row, other: Row) -> bool:
    """Whether both could be the price of one response."""
    same = row[:2] == other[:2]
    return same and row[2] < other[4] and other[2] < row[4] and row[3] < other[5] and other[3] < row[5]


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a model's name is a text")
    return value


def _price(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is no price")
    return float(value)


def _millis(day: str | None) -> int | None:
    if day is None:
        return None
    return int(datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).timestamp()) * 1000
