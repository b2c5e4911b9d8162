"""The chain of a session: what the client would resume, found by query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from transcripts.errors import InvalidRequest, Problem
from transcripts.index.schema import entries, messages
from transcripts.sessions.catalog import Transcript

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


@dataclass(frozen=True)
class Chain:
    """What the client would resume, oldest first. Without entries there is no conversation, and `problems` says why."""

    session: str
    path: str
    rules: str
    leaf: str | None
    entries: tuple[ChainEntry, ...]
    problems: tuple[Problem, ...]
    bodies: Bodies = field(repr=False, compare=False)

    def lines(self) -> Iterator[bytes]:
        """The raw records of the entries, in order, read when they are asked for."""
        return self.bodies([(entry.offset, entry.length) for entry in self.entries])


def resume(
    connection: Connection, transcript: Transcript, bodies: Bodies, *, rules: str, leaf: str | None, last: int | None
) -> Chain:
    """The chain of a transcript, by the rules asked for."""
    if rules not in ("current", "classic"):
        raise InvalidRequest(f"there are no rules {rules!r}; there are: current, classic")
    table = messages
    start = connection.execute(
        select(table.c.node)
        .where(table.c.file == transcript.file, table.c.is_sidechain.is_(False))
        .order_by(table.c.offset.desc())
    ).first()
    walk = select(table.c.node, table.c.parent).where(table.c.node == (start.node if start else None)).cte(recursive=True)
    walk = walk.union(select(table.c.node, table.c.parent).where(table.c.node == walk.c.parent))
    rows: list[Row[Any]] = list(
        connection.execute(
            select(table, entries.c.length)
            .join(walk, walk.c.node == table.c.node)
            .join(entries, entries.c.id == table.c.entry)
            .order_by(table.c.offset)
        )
    )
    found = tuple(
        ChainEntry(row.uuid, row.parent_uuid, row.type, row.subtype, row.timestamp, False, row.offset, row.length) for row in rows
    )
    return Chain(transcript.session_id or "", transcript.path, rules, found[-1].uuid if found else None, found, (), bodies)
