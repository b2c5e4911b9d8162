"""A time zone as spans of one offset, so that plain SQL knows the local day of a moment.

Invariants:
- The spans of a zone follow each other without a gap, from 2020 to 2050; each lies within one month of local time and has
  one offset. Earlier and later moments have no day.
- All is whole milliseconds; a change of the offset is found to the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from transcripts.errors import InvalidRequest

FIRST_YEAR, LAST_YEAR = 2020, 2050
_WEEK = 7 * 24 * 3600  # no zone changes its offset twice in a week
_SLACK = 24 * 3600  # an offset is less than a day


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: its name, and from when on (seconds since 1970 UTC, ascending) which offset holds (seconds ahead of UTC)."""

    name: str
    offsets: tuple[tuple[int, int], ...]

    def rows(self) -> list[tuple[str, int, int, int, str, int]]:
        """The rows of the table zone_offsets: zone, starts_at, ends_at, utc_offset, month, month_starts_at."""
        end = _moment(LAST_YEAR) + _SLACK
        ends = [*(begin for begin, _offset in self.offsets[1:]), end]
        found = []
        for (begin, offset), end in zip(self.offsets, ends, strict=True):
            for month, first, after in _months():
                since, until = max(begin, first - offset), min(end, after - offset)
                if since < until:
                    found.append((self.name, since * 1000, until * 1000, offset * 1000, month, first * 1000))
        return sorted(found, key=lambda row: row[1])


def probed(name: str, offset_at: Callable[[int], int]) -> Zone:
    """The zone of a function from seconds since 1970 to the offset that holds then. Cost: 1,600 calls of it."""
    begin, end = _moment(FIRST_YEAR) - _SLACK, _moment(LAST_YEAR) + _SLACK
    offsets = [(begin, offset_at(begin))]
    for at in range(begin + _WEEK, end + _WEEK, _WEEK):
        if (offset := offset_at(at)) != offsets[-1][1]:
            before, after = at - _WEEK, at
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (before, middle) if offset_at(middle) == offset else (middle, after)
            offsets.append((after, offset))
    return Zone(name, tuple(offsets))


def named(name: str) -> Zone:
    """A zone by its name, such as Europe/Berlin. Raises InvalidRequest for one that this system does not know."""
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(f"there is no time zone {name!r} here; give one like Europe/Berlin or UTC") from None

    def offset_at(at: int) -> int:
        offset = datetime.fromtimestamp(at, zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0

    return probed(name, offset_at)


def _moment(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def _months() -> Iterator[tuple[str, int, int]]:
    """Each month with its begin and end, as if local time were UTC."""
    for number in range(FIRST_YEAR * 12, LAST_YEAR * 12):
        first, after = (datetime(at // 12, at % 12 + 1, 1, tzinfo=UTC) for at in (number, number + 1))
        yield f"{first:%Y-%m}", int(first.timestamp()), int(after.timestamp())


UTC_ZONE = probed("UTC", lambda at: 0)
