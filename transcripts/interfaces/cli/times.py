"""Times in and out: what a person writes and reads is in the local zone, what a program reads is UTC.

Invariants:
- A day means that day in the user's zone: `--since` its begin, `--until` its end.
- No time that a transcript can hold raises.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

import click

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN = re.compile(r"(\d{1,6})\s*([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_DAYS = {"today": 0, "yesterday": 1}


def since(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A moment on the command line as milliseconds UTC: a day, a day and a time, `today`, `yesterday`, `12h`, `7d`, `2w`."""
    return _parsed(value, 0)


def until(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The same, where a day means its end."""
    return _parsed(value, 1)


def _parsed(value: str | None, days_later: int) -> int | None:
    if value is None:
        return None
    try:
        return _millis(_moment(value.strip().lower(), days_later))
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{value!r} is no time; give a day like 2026-03-09, a time like 2026-03-09T14:30, yesterday, 12h, 7d or 2w"
        ) from None


def _moment(text: str, days_later: int) -> datetime:
    now = datetime.now().astimezone()
    if span := _SPAN.fullmatch(text):
        return now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        day = now.date() - timedelta(days=_DAYS[text]) if text in _DAYS else date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text.upper()).astimezone()
    return datetime.combine(day + timedelta(days=days_later), time()).astimezone()


def _millis(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso(millis: int | None) -> str | None:
    """Milliseconds UTC as ISO 8601 text, UTC."""
    if millis is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(millis: int | None) -> datetime | None:
    """Milliseconds UTC in the user's zone; None when there is no such time."""
    if millis is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def short(millis: int | None, narrow: bool = False) -> str:
    """Day and minute in the user's zone; `narrow` leaves out the year when it is this one, else the minute."""
    moment = local(millis)
    if moment is None:
        return "-"
    if not narrow:
        return f"{moment:%Y-%m-%d %H:%M}"
    return f"{moment:%m-%d %H:%M}" if moment.year == datetime.now().astimezone().year else f"{moment:%Y-%m-%d}"
