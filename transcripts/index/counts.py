"""The numbers of a session: counted over the rows of its transcript, or raised by those that were added.

Invariants:
- Both ways give the same numbers. They are raised only where what was added leaves the rows before it as they were, except
  that it answers calls and brings parents that were missing (`Rows.reaches_back` tells the other cases).
- Raising costs what was added, whatever the length of the session: so a line more of a long one costs no more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Row, Select, and_, bindparam, case, exists, func, or_, select

from transcripts.index.bulk import fetch, scalar
from transcripts.index.rows import Rows
from transcripts.index.schema import boundaries, entries, messages, problems, tool_calls

# made once: putting such a query together takes longer than answering it
_FILE: BindParameter[int] = bindparam("file")
_SINCE: BindParameter[int] = bindparam("since")
_SPOKEN = and_(messages.c.is_sidechain.is_(False), or_(messages.c.type == "user", messages.c.type == "assistant"))
_SAID = select(  # of messages from an offset on
    func.min(case((_SPOKEN, messages.c.timestamp))).label("created_at"),
    func.max(case((_SPOKEN, messages.c.timestamp))).label("last_activity_at"),
    func.count(case((_SPOKEN, 1))).label("message_count"),
    func.count(case((messages.c.is_prompt, 1))).label("prompt_count"),
).where(messages.c.file == _FILE, messages.c.offset >= _SINCE)
_OTHER = messages.alias()
_LOST = (  # of these, those whose parent is not there
    select(func.count())
    .select_from(messages)
    .where(messages.c.file == _FILE, messages.c.offset >= _SINCE)
    .where(messages.c.parent.is_not(None), ~exists().where(_OTHER.c.node == messages.c.parent))
)
_FOUND = (  # and the messages before them whose parent they are
    select(func.count())
    .select_from(messages.join(_OTHER, and_(_OTHER.c.parent == messages.c.node, _OTHER.c.offset < _SINCE)))
    .where(messages.c.file == _FILE, messages.c.offset >= _SINCE)
)
_CALLED = select(
    func.count().label("tool_call_count"),
    func.count(case((tool_calls.c.result_entry.is_(None), 1))).label("unanswered_count"),
).where(tool_calls.c.file == _FILE, tool_calls.c.call_entry.is_not(None))
_RECORDS = select(func.count()).select_from(entries).where(entries.c.file == _FILE, entries.c.type.is_not(None))
_COMPACTIONS = select(func.count(boundaries.c.node.distinct())).where(boundaries.c.file == _FILE)
_PROBLEMS = select(func.count()).select_from(problems).where(problems.c.file == _FILE)
_KNOWN = select(*tool_calls.c["tool_use_id", "call_entry", "result_entry"]).where(
    tool_calls.c.file == _FILE, tool_calls.c.tool_use_id.in_(bindparam("some", expanding=True))
)

Numbers = dict[str, int | None]


class Calls(NamedTuple):
    """Of the calls that are about to be added or answered: those that stand already, and those that are answered."""

    called: frozenset[str]
    answered: frozenset[str]


def counted(connection: Connection, file: int) -> Numbers:
    """The numbers of a session. Cost: one pass over the index of the file's messages."""
    return {
        **_row(connection, _SAID, file=file, since=0),
        **_row(connection, _CALLED, file=file),
        "missing_parent_count": _number(connection, _LOST, file=file, since=0),
        "entry_count": _number(connection, _RECORDS, file=file),
        **_few(connection, file),
    }


def calls_before(connection: Connection, file: int, rows: Rows) -> Calls:
    """How the calls stand that a batch tells of, before it is added."""
    named = sorted({*rows.calls, *rows.results})
    known = fetch(connection, _KNOWN, file=file, some=named) if named else []
    called = (key for key, call, _result in known if call is not None)
    answered = (key for key, _call, result in known if result is not None)
    return Calls(frozenset(called), frozenset(answered))


def raised(connection: Connection, file: int, before: Row[Any], rows: Rows, calls: Calls) -> Numbers:
    """The numbers of a session, from those before a batch was added; it reaches not back. Cost: the batch."""
    numbers: Numbers = dict(before._mapping)
    if not rows.entries:
        return numbers | _few(connection, file)
    since = rows.entries[0][2]
    said = _row(connection, _SAID, file=file, since=since)
    for name, choose in (("created_at", min), ("last_activity_at", max)):
        times = [time for time in (numbers[name], said[name]) if time is not None]
        numbers[name] = choose(times, default=None)
    added = {
        "message_count": said["message_count"],
        "prompt_count": said["prompt_count"],
        "entry_count": sum(row[4] is not None for row in rows.entries),
        "tool_call_count": len(rows.calls.keys() - calls.called),
        "unanswered_count": _unanswered(rows, calls),
        "missing_parent_count": _missing(connection, file, since) if rows.messages else 0,
    }
    numbers |= {name: (numbers[name] or 0) + (number or 0) for name, number in added.items()}
    return numbers | _few(connection, file)


def _unanswered(rows: Rows, calls: Calls) -> int:
    """How many calls more have no result."""
    called, answered = calls.called | rows.calls.keys(), calls.answered | rows.results.keys()
    return len(called - answered) - len(calls.called - calls.answered)


def _missing(connection: Connection, file: int, since: int) -> int:
    """How many messages more have a parent that is not there: new ones, without those whose parent has come."""
    return _number(connection, _LOST, file=file, since=since) - _number(connection, _FOUND, file=file, since=since)


def _few(connection: Connection, file: int) -> Numbers:
    """What there is little of."""
    return {
        "compaction_count": _number(connection, _COMPACTIONS, file=file),
        "problem_count": _number(connection, _PROBLEMS, file=file),
    }


def _row(connection: Connection, query: Select[*tuple[Any, ...]], **given: int) -> Numbers:
    (row,) = fetch(connection, query, **given)
    return dict(zip(query.selected_columns.keys(), row, strict=True))


def _number(connection: Connection, query: Select[Any], **given: int) -> int:
    return scalar(connection, query, **given) or 0
