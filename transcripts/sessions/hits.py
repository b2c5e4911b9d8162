"""Matching lines as hits: one a message, with its session, its text around the words, and the copies of it in forks.

Invariants:
- Lines are read in the order of the matches, in portions, only until the page is full. What a filter leaves out is told by
  rows, before anything is read.
- What makes two lines one message: the response that an assistant line is part of, the uuid of any other line, of which an
  SDK fork names the original; a title is one with its equals in the same session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, select

from transcripts.files.entry import clean, load, millis
from transcripts.index.schema import messages
from transcripts.index.text import TITLE_FIELDS, passages
from transcripts.sessions import chain
from transcripts.sessions.bodies import records
from transcripts.sessions.catalog import transcript_of
from transcripts.sessions.expression import Term
from transcripts.sessions.matching import Match
from transcripts.sessions.snippet import snippet
from transcripts.sessions.tree import View

_PORTION = 32  # lines read at a time
_PASSED_OVER = 40_000  # matches in a row that a filter leaves out, before the search is given up
_EXCERPT = 300  # characters of a message around a hit


@dataclass(frozen=True, slots=True)
class Said:
    """A message around a hit: its uuid, role, time in milliseconds UTC, and the beginning of its text."""

    uuid: str | None
    role: str
    timestamp: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that matches.

    `session_id` is what `resume` takes (with `agent_id` for a sub-agent's message), `uuid` the line's (None for a title).
    `kind` is the part of it that matched best: title, summary, prompt, reply, thinking, tool or result. `marks` are the places
    of the words in `snippet`, as (start, end) in characters. `copies` are the ids of other sessions that hold the same message,
    `matches` is how many lines of the session match, where hits were grouped by session, else 1. A title's time is the last
    activity of its session.
    """

    session_id: str | None
    agent_id: str | None
    project: str
    title: str | None
    path: str
    state: str
    uuid: str | None
    role: str
    kind: str
    timestamp: int | None
    snippet: str
    marks: tuple[tuple[int, int], ...]
    score: float
    copies: tuple[str, ...] = ()
    matches: int = 1
    before: tuple[Said, ...] = ()
    after: tuple[Said, ...] = ()


class _Line(NamedTuple):
    match: Match
    offset: int
    type: str
    record: dict[str, Any]
    key: tuple[Any, ...]


_SESSIONS = """
    SELECT f.*, s.title, coalesce(p.path, f.project_key) AS project FROM json_each(?) AS wanted
    JOIN files AS f ON f.id = wanted.value
    LEFT JOIN files AS main ON main.session_id = f.session_id AND main.kind = 'main' AND main.project_key = f.project_key
        AND main.source = f.source AND main.state <> 'replaced'
    LEFT JOIN sessions AS s ON s.file = main.id LEFT JOIN projects AS p ON p.id = s.project"""
_LINES = """
    SELECT e.id, e.file, e."offset", e.length, e.crc, e.type, e.timestamp FROM json_each(?) AS wanted
    JOIN entries AS e ON e.id = wanted.value ORDER BY e.file, e."offset"
"""
_COPIES = """
    SELECT n.uuid, n.file FROM json_each(?) AS wanted
    JOIN nodes AS n ON n.uuid = wanted.value JOIN messages AS m ON m.node = n.id"""


class Hits:
    """Makes hits of matches."""

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Connection]],
        connection: Connection,
        terms: Sequence[Term],
        *,
        live: bool,
        replaced: bool,
    ) -> None:
        self._connect = connect
        self._connection = connection
        self._terms = terms
        self._live = live
        self._replaced = replaced
        self._sessions: dict[int, Row[Any]] = {}  # rows of _SESSIONS by file
        self._chains: dict[int, frozenset[int]] = {}  # the offsets of the lines of a file's chain
        self._done: set[tuple[Any, ...]] = set()  # sessions of which one hit is enough
        self.left_out: str | None = None
        """Why matches gave no hit, where a filter left them out."""
        self.folded = 0
        """How many messages were met."""
        self.places: list[tuple[str, str, str | None]] = []
        """The source, project key and session id of each hit of the page."""

    def page(
        self, matches: Iterable[Match], *, by_session: bool, context: int, limit: int, offset: int
    ) -> tuple[list[Hit], bool]:
        """The hits from `offset` on, at most `limit`, and whether there are more."""
        folded: dict[tuple[Any, ...], list[_Line]] = {}
        for line in self._lines(iter(matches)):
            key = self._place(line.match.file) if by_session else line.key
            folded.setdefault(key, []).append(line)
            if by_session:
                self._done.add(key)
            if len(folded) > offset + limit:
                break
        self.folded = len(folded)
        chosen = list(islice(folded.values(), offset, offset + limit))
        elsewhere = self._elsewhere([lines[0] for lines in chosen])
        self._learn({file for files in elsewhere.values() for file in files})
        self.places = [self._place(lines[0].match.file) for lines in chosen]
        return [self._hit(lines, elsewhere, context) for lines in chosen], len(folded) > offset + limit

    # -- lines -------------------------------------------------------------------------------------------------------------

    def _lines(self, matches: Iterator[Match]) -> Iterator[_Line]:
        passed_over = 0
        while portion := list(islice(matches, _PORTION)):
            self._learn({match.file for match in portion})
            wanted = {match.entry: match for match in portion if self._is_wanted(match)}
            lines = self._read(wanted) if wanted else {}
            for match in portion:
                if match.entry in lines:
                    passed_over = 0
                    yield lines[match.entry]
                elif self._place(match.file) not in self._done:
                    passed_over += 1
            if passed_over > _PASSED_OVER:
                self.left_out = f"{self.left_out} (the newest {_PASSED_OVER:,}; narrow the search to see others)"
                return

    def _is_wanted(self, match: Match) -> bool:
        if not self._replaced and self._sessions[match.file].state == "replaced":
            self.left_out = self.left_out or "only older versions of files hold it"
            return False
        return self._place(match.file) not in self._done

    def _read(self, matches: dict[int, Match]) -> dict[int, _Line]:
        by_file: dict[int, list[Row[Any]]] = {}
        for row in self._connection.exec_driver_sql(_LINES, (orjson.dumps(list(matches)).decode(),)):
            if not self._live or self._is_live(row):
                by_file.setdefault(row.file, []).append(row)
            else:
                self.left_out = "all matches stand outside of the live chain"
        lines = {}
        for file, rows in by_file.items():
            bodies = records(self._connection, file, [(row.offset, row.length, row.crc) for row in rows])
            for row, body in zip(rows, bodies, strict=True):
                record = load(body)
                key = _identity(record, row.type, self._place(file))
                lines[row.id] = _Line(matches[row.id], row.offset, row.type, record, key)
        return lines

    def _is_live(self, row: Row[Any]) -> bool:
        if row.type in TITLE_FIELDS or row.type == "summary":
            return True  # it stands for the session
        if row.file not in self._chains:
            transcript = transcript_of(self._sessions[row.file])
            level = View(is_agent=True) if transcript.kind == "agent" else None
            found = chain.resume(self._connect, transcript, rules="current", leaf=None, last=None, level=level)
            self._chains[row.file] = frozenset(found.offsets)
        return row.offset in self._chains[row.file]

    # -- hits --------------------------------------------------------------------------------------------------------------

    def _hit(self, lines: list[_Line], elsewhere: dict[str, set[int]], context: int) -> Hit:
        best = lines[0]
        session = self._sessions[best.match.file]
        shown = snippet(list(passages(best.record).items()), self._terms)
        before, after = self._around(best, context)
        uuid = _text(best.record.get("uuid"))
        copies = {line.match.file for line in lines} | elsewhere.get(uuid or "", set())
        ids = {self._sessions[file].session_id for file in copies} - {session.session_id, None}
        return Hit(
            session.session_id, session.agent_id, session.project, session.title, session.path, session.state,
            uuid, best.type if best.type in ("user", "assistant", "system") else "user", shown.column or "", best.match.timestamp,
            shown.text, tuple(shown.marks), best.match.score, tuple(sorted(ids)), 1, before, after,
        )  # fmt: skip

    def _elsewhere(self, lines: list[_Line]) -> dict[str, set[int]]:
        """The files that hold the messages of these lines under the same uuid."""
        uuids = [uuid for line in lines if (uuid := _text(line.record.get("uuid")))]
        found: dict[str, set[int]] = {}
        for uuid, file in self._connection.exec_driver_sql(_COPIES, (orjson.dumps(uuids).decode(),)):
            found.setdefault(uuid, set()).add(file)
        return found

    def _around(self, line: _Line, count: int) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
        """The user and assistant lines before and after one in its file, on the same level."""
        if not count:
            return (), ()
        side = line.record.get("isSidechain") is True
        spoken = (messages.c.file == line.match.file) & messages.c.type.in_(("user", "assistant"))
        around = select(*messages.c["offset", "length", "crc", "type", "timestamp", "uuid"]).where(
            spoken, messages.c.is_sidechain == side
        )
        place = messages.c.offset
        before = self._connection.execute(around.where(place < line.offset).order_by(place.desc()).limit(count)).all()[::-1]
        after = self._connection.execute(around.where(place > line.offset).order_by(place).limit(count)).all()
        bodies = records(self._connection, line.match.file, [(row.offset, row.length, row.crc) for row in [*before, *after]])
        said = [
            Said(row.uuid, row.type, row.timestamp, snippet(list(passages(load(body)).items()), (), width=_EXCERPT).text)
            for row, body in zip([*before, *after], bodies, strict=True)
        ]
        return tuple(said[: len(before)]), tuple(said[len(before) :])

    # -- sessions ----------------------------------------------------------------------------------------------------------

    def _place(self, file: int) -> tuple[str, str, str | None]:
        row = self._sessions[file]
        return row.source, row.project_key, row.session_id

    def _learn(self, keys: Iterable[int]) -> None:
        """Look up the files, and the sessions they belong to, that are not known yet."""
        unknown = [key for key in keys if key not in self._sessions]
        for row in self._connection.exec_driver_sql(_SESSIONS, (orjson.dumps(unknown).decode(),)) if unknown else ():
            self._sessions[row.id] = row


def _identity(record: dict[str, Any], kind: str, session: tuple[Any, ...]) -> tuple[Any, ...]:
    message = record.get("message")
    if kind == "assistant" and isinstance(message, dict) and (response := _text(message.get("id"))):
        return "response", response, _text(record.get("requestId"))
    if kind in TITLE_FIELDS or kind == "summary":
        return "title", session, tuple(passages(record).items())
    origin = record.get("forkedFrom")
    uuid = _text(origin.get("messageUuid")) if isinstance(origin, dict) else None
    if uuid := uuid or _text(record.get("uuid")):
        return "uuid", uuid
    return "line", session, tuple(passages(record).items()), millis(record.get("timestamp"))


def _text(value: object) -> str | None:
    return clean(value) if isinstance(value, str) and value else None
