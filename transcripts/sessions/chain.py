"""The chain of a session: what the client would resume, found by query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from transcripts.errors import InvalidRequest, NotFound, Problem
from transcripts.sessions import classic, current, drops
from transcripts.sessions.catalog import Transcript

RULES = {
    "current": (current.find, drops.dropped, drops.hidden),
    "classic": (classic.find, classic.dropped, lambda _chain: {}),
}

Bodies = Callable[[Sequence[tuple[int, int]]], Iterator[bytes]]
"""Reads the bytes of records at (offset, length) places of a transcript, in that order."""


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """A message of a chain.

    `timestamp` is milliseconds since 1970 UTC. `recovered` is True for one that the walk along parents does not meet: a
    parallel reply's other lines and their results.
    """

    uuid: str
    parent_uuid: str | None
    type: str
    subtype: str | None
    timestamp: int | None
    recovered: bool
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Join:
    """A gap that was bridged: the entry whose parent did not do, the entry it was joined to (None: none fits), and why."""

    uuid: str
    to: str | None
    reason: str


@dataclass(frozen=True)
class Chain:
    """What the client would resume, oldest first.

    Without entries there is no conversation, and `leaf_reason` says why; else it says how the leaf was chosen. `dropped`
    are the uuids left out of the chain, with the reason; `problems` what is wrong with it.
    """

    session: str
    path: str
    rules: str
    leaf: str | None
    leaf_reason: str
    entries: tuple[ChainEntry, ...]
    joins: tuple[Join, ...]
    dropped: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...]
    bodies: Bodies = field(repr=False, compare=False)

    def lines(self) -> Iterator[bytes]:
        """The raw records of the entries, in order, read when they are asked for."""
        return self.bodies([(entry.offset, entry.length) for entry in self.entries])


def resume(
    connection: Connection, transcript: Transcript, bodies: Bodies, *, rules: str, leaf: str | None, last: int | None
) -> Chain:
    """The chain of a transcript, by the rules asked for."""
    if rules not in RULES:
        raise InvalidRequest(f"there are no rules {rules!r}; there are: {', '.join(RULES)}")
    find, dropped, hidden = RULES[rules]
    way = find(connection, transcript.file, leaf)
    if leaf is not None and way.leaf is None:
        raise NotFound(f"{transcript.path} has no message {leaf}")
    out = dropped(way.lines)
    unseen = hidden(way.lines)
    entries = tuple(
        ChainEntry(
            node.uuid,
            node.parent_uuid,
            node.type,
            node.subtype,
            node.timestamp,
            node.key in way.recovered,
            node.offset,
            node.length,
        )
        for node in way.lines
        if node.key not in out and node.key not in unseen
    )
    return Chain(
        session=transcript.session_id or "",
        path=transcript.path,
        rules=rules,
        leaf=way.leaf.uuid if way.leaf else None,
        leaf_reason=way.reason,
        entries=entries[-last:] if last is not None else entries,
        joins=tuple(Join(node.uuid, to.uuid if to else None, why) for node, to, why in way.joins),
        dropped=tuple((node.uuid, (out | unseen)[node.key]) for node in way.lines if node.key in out or node.key in unseen),
        problems=(),
        bodies=bodies,
    )
