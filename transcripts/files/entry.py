"""One line into entries: the records that stand on it.

Invariants:
- The bytes are never changed and never serialised again; an Entry remembers where its record lies.
- Unknown types and fields are kept: a record is the parsed object itself.
- What the client would read is read (FORMAT.md section 2): a BOM, CR and blanks around a record, invalid UTF-8 (U+FFFD),
  lone surrogates. What it refuses (NaN, a torn record) is a Problem.
- Nothing that a line contains raises. A record that the client loses but that is certain (the second object of a glued
  line, a whole record behind a cut one or a run of NULs) is salvaged, and marked so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn

import orjson

from transcripts.errors import Problem
from transcripts.files.reader import Line

WHOLE, GLUED, SALVAGED = 0, 1, 2
"""How a record stands on its line: alone; first, with more behind it; only found by salvage."""

_DEEP = 500  # levels that json reads on every supported Python
BLANK = (
    " \t\n\r\v\f\ufeff\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""What the client's language trims."""

_EXCERPT = 80
_RECORD_START = re.compile(rb'\{"[A-Za-z]{1,40}" ?:')
_SALVAGE_EFFORT = 8  # times its length that a damaged line may cost, so that a hostile one does not cost its square
# a string that is never closed reaches to the end in one step: a torn line would else cost its square
_BYTE_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}]', re.DOTALL)
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Entry(NamedTuple):
    """A record of a transcript: `value` as parsed, `offset` and `length` of its bytes, and how it stands on its line."""

    offset: int
    length: int
    value: dict[str, Any]
    standing: int


class Parsed(NamedTuple):
    """What stands on one line."""

    entries: list[Entry]
    problems: list[Problem]


def parse(line: Line, path: str) -> Parsed:
    """Read the records of a line; `path` is only for the problems.

    A blank line has neither entries nor problems. Cost: linear in the line, also for damaged ones.
    """
    data = line.data
    try:
        value = orjson.loads(data)
    except ValueError:
        return _parse_odd(line, path)
    if type(value) is dict:
        return Parsed([Entry(line.offset, len(data), value, WHOLE)], [])
    return Parsed([], [_problem(path, "no JSON object", line.offset, data)])


def exact(line: Line) -> list[dict[str, Any]]:
    """The records of a line as whoever wrote them gave them: `parse` makes floats of whole numbers beyond 64 bits."""
    try:
        value = json.loads(line.data.decode())
    except (ValueError, RecursionError):
        return [entry.value for entry in parse(line, "").entries]
    return [value] if isinstance(value, dict) else []


def load(data: bytes) -> dict[str, Any]:
    """Parse the bytes of one Entry again: the record that `parse` found there, or {} when there is none."""
    try:
        value = orjson.loads(data)
    except ValueError:
        value = _loads(_decoded(data).strip(BLANK))
    return value if isinstance(value, dict) else {}


def clean(text: str) -> str:
    """Replace what no database column takes: NUL and lone surrogates become U+FFFD."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("�", text)


def millis(timestamp: object) -> int | None:
    """An ISO 8601 time as integer milliseconds since 1970 UTC (without a zone: UTC), or None when it is no such text."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None


# -- lines that orjson refuses ------------------------------------------------------------------------------------------


def _parse_odd(line: Line, path: str) -> Parsed:
    leading, data = _trim(line.data)
    if not data:
        return Parsed([], [])
    start = line.offset + leading
    problems: list[Problem] = []
    if not data.strip(b"\x00 "):
        return Parsed([], [_problem(path, "NUL bytes", start, data)])
    text = _decoded(data)
    if "�" in text and "�".encode() not in data:
        problems.append(_problem(path, "invalid UTF-8", start, data))
    value = _loads(text)
    if isinstance(value, dict):
        if _too_deep(text):
            problems.append(_problem(path, f"nested deeper than {_DEEP} levels; what is deeper is not indexed", start, data))
        return Parsed([Entry(start, len(data), value, WHOLE)], problems)
    if value is not None:
        return Parsed([], [*problems, _problem(path, "no JSON object", start, data)])
    return _salvaged(start, data, path, problems)


def _salvaged(start: int, data: bytes, path: str, problems: list[Problem]) -> Parsed:
    """The records of a damaged line: objects glued together from its start, and whole records at its end."""
    entries: list[Entry] = []
    at = 0
    for begin, end in _objects(data, 0):
        value = _loads(_decoded(data[begin:end]))
        if not isinstance(value, dict):
            break
        entries.append(Entry(start + begin, end - begin, value, SALVAGED if entries else GLUED))
        at = _past_blanks(data, end)
    if len(entries) > 1:
        problems.append(_problem(path, f"{len(entries)} objects on one line", start, data))
    if at == len(data):
        return Parsed(entries, problems)
    behind = _records_at_end(data, at)
    if behind:
        skipped = behind[0].offset - at
        entries += [entry._replace(offset=start + entry.offset) for entry in behind]
        problems.append(_problem(path, "damaged, with a whole record behind it", start + at, data[at : at + skipped]))
    else:
        problems.append(_problem(path, "no valid JSON", start + at, data[at:]))
    return Parsed(entries, problems)


def _objects(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Where the objects begin and end that stand one behind the other from `at` on."""
    while data[at : at + 1] == b"{" and (end := _object_end(data, at)) is not None:
        yield at, end
        at = _past_blanks(data, end)


def _past_blanks(data: bytes, at: int) -> int:
    while data[at : at + 1].isspace():
        at += 1
    return at


def _object_end(data: bytes, start: int = 0) -> int | None:
    """Where the brace that opens at `start` is closed; strings are passed over."""
    depth = 0
    for token in _BYTE_TOKEN.finditer(data, start):
        sign = token[0]
        if sign == b"{":
            depth += 1
        elif sign == b"}":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _records_at_end(data: bytes, at: int) -> list[Entry]:
    """Whole records, one behind the other, from somewhere behind `at` to the end.

    Certain means: they parse to the very end, and each names both its type and its session (a summary: its leaf), which
    nested objects of a torn record do not.
    """
    budget = _SALVAGE_EFFORT * (len(data) - at)
    for match in _RECORD_START.finditer(data, at + 1):
        places = list(_objects(data, match.start()))
        end = _past_blanks(data, places[-1][1]) if places else len(data)
        budget -= end - match.start()
        if places and end == len(data):
            values = [_loads(_decoded(data[begin:end])) for begin, end in places]
            if all(_is_record(value) for value in values):
                found = zip(places, values, strict=True)
                return [Entry(begin, end - begin, value, SALVAGED) for (begin, end), value in found]
        if budget < 0:
            break
    return []


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and ("sessionId" in value or "leafUuid" in value)


def _trim(data: bytes) -> tuple[int, bytes]:
    """How many bytes the blanks in front take, and what is left between them and the blanks behind."""
    text = _decoded(data)
    leading = text[: len(text) - len(text.lstrip(BLANK))].encode()
    trailing = text[len(text.rstrip(BLANK)) :].encode()
    return len(leading), data[len(leading) : max(len(leading), len(data) - len(trailing))]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _loads(text: str) -> Any:
    """Parse as the client would; None for what is no JSON (the text `null` is no record either)."""
    try:
        return orjson.loads(text.encode("utf-8"))
    except ValueError:
        pass
    try:
        return json.loads(text if not _too_deep(text) else _shallow(text), parse_constant=_refuse, parse_int=_number)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)  # Python refuses an int of thousands of digits


def _too_deep(text: str) -> bool:
    depth = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "[{":
            depth += 1
            if depth > _DEEP:
                return True
        elif sign in "]}":
            depth -= 1
    return False


def _shallow(text: str) -> str:
    """The text with everything below _DEEP levels replaced by null."""
    kept: list[str] = []
    depth = start = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "[{":
            depth += 1
            if depth == _DEEP + 1:
                kept += [text[start : token.start()], "null"]
        elif sign in "]}":
            depth -= 1
            if depth == _DEEP:
                start = token.end()
    if depth > _DEEP:
        return ""
    return "".join([*kept, text[start:]])


def excerpt(data: bytes) -> str:
    """The first characters of bytes, printable, for a Problem."""
    return clean(_decoded(data[:_EXCERPT]).translate(_PRINTABLE))


def _problem(path: str, reason: str, offset: int, data: bytes) -> Problem:
    return Problem(path, reason, offset, len(data), excerpt(data))


_PRINTABLE = dict.fromkeys([*range(32), *range(127, 160)], "·")
