"""The chain of a session: what the client would resume, and the truth about how it was found.

Invariants:
- No file is read for the chain itself: the database has all that the rules ask for. Bodies are read when they are asked for.
- A chain says how it came about: how the leaf was chosen, what was joined, recovered and dropped, and what is wrong.
- `last=N` counts the entries that are left after the drops, and costs N, not the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection

from transcripts.errors import InvalidRequest, NotFound, Problem
from transcripts.files.entry import load
from transcripts.sessions import classic, current, drops, replay, unreached
from transcripts.sessions.bodies import Place, records
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.collecting import collection_waits
from transcripts.sessions.node import ASSISTANT, Node
from transcripts.sessions.replay import Part
from transcripts.sessions.state import SessionState, state_of
from transcripts.sessions.tree import Tree, View, Way

Interruption = Literal["none", "interrupted_prompt", "interrupted_turn"]

RULES = {
    "current": (current.find, drops.dropped, drops.hidden),
    "classic": (classic.find, classic.dropped, lambda _chain: {}),
}
_PLACE = attrgetter("offset", "length", "crc")
_SLICE = 4096  # lines of which the rest is read at a time: what is at hand stays in the processor's cache
_MARGIN = 256  # lines walked beyond the last N: more than a reply has, which is what drops look at


class Tokens(NamedTuple):
    """The usage of an assistant line: numbers of tokens."""

    input: int
    output: int
    cache_read: int
    cache_write: int


class Join(NamedTuple):
    """A gap: the uuid of the entry whose parent did not do, that of the entry it was joined to (None: none fits), and why."""

    uuid: str
    to: str | None
    reason: str


class ChainEntry(NamedTuple):
    """A message of a chain.

    `timestamp` is milliseconds since 1970 UTC. `recovered` is True for one that the walk along parents does not meet: a
    parallel reply's other lines and their results. `usage` is that of its line, None where it has none.
    """

    uuid: str
    parent_uuid: str | None
    type: str
    subtype: str | None
    timestamp: int | None
    message_id: str | None
    recovered: bool
    usage: Tokens | None
    place: Place


@dataclass(frozen=True)
class Chain:
    """What the client would resume, oldest first.

    Without entries there is no conversation; `leaf_reason` says why, else how the leaf was chosen. `dropped` are the uuids
    left out, each with the reason. `interruption` says whether the session ended with a prompt without an answer, or with a
    turn cut among its tools. `cut` is True when `last` left out what stands before.
    """

    session: str
    path: str
    rules: str
    leaf: str | None
    leaf_reason: str
    joins: tuple[Join, ...]
    dropped: tuple[tuple[str, str], ...]
    interruption: Interruption
    cut: bool
    _file: int = field(repr=False)
    _connect: Callable[[], AbstractContextManager[Connection]] = field(repr=False, compare=False)
    _way: Way = field(repr=False, compare=False)
    _shown: list[Node] = field(repr=False, compare=False)
    _sent: list[Node] = field(repr=False, compare=False)

    @property
    def offsets(self) -> list[int]:
        """Where the entries stand in the file, in order: their first bytes. Cost: nothing is read."""
        return [node.offset for node in self._shown]

    @cached_property
    def entries(self) -> tuple[ChainEntry, ...]:
        """The messages, in order."""
        with self._connect() as connection, collection_waits():
            return tuple(_entries(Tree(connection, self._file), self._shown, self._way))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the chain: gaps, circles, calls without a result, results without a call."""
        return tuple(_problems(self.path, self._way))

    def lines(self) -> Iterator[bytes]:
        """The raw records of the entries, in order, read as they are asked for."""
        with self._connect() as connection:
            yield from records(connection, self._file, map(_PLACE, self._shown))

    def messages(self, extra: list[dict[str, Any]] | None = None, *, system_as_user: bool = False) -> list[dict[str, Any]]:
        """What would be sent to the model (FORMAT.md 3.9): role and content of each message, valid for the Messages API.

        `extra` are messages that a start hook of the caller adds at the end. `system_as_user` turns messages of role system
        into user text, for models that take none. Raises InvalidRequest for a chain that `last` has cut.
        """
        return replay.messages(self.parts(), extra or [], system_as_user)

    def parts(self) -> list[Part]:
        """What would be sent to the model, block by block, each with the uuid of its line (None: made up).

        Raises InvalidRequest for a chain that `last` has cut.
        """
        if self.cut:
            raise InvalidRequest("what would be sent hangs on the whole chain; resume it without `last`")
        with self._connect() as connection:
            bodies = records(connection, self._file, map(_PLACE, self._sent))
            return replay.parts([(node, load(data)) for node, data in zip(self._sent, bodies, strict=True)])

    @cached_property
    def state(self) -> SessionState:
        """What belongs to the session beside its messages; read when it is asked for."""
        with self._connect() as connection:
            return state_of(connection, self._file, {node.uuid for node in self._shown})

    @cached_property
    def unreached(self) -> dict[str, int]:
        """How many messages of the session the chain does not reach, by the reason; found when it is asked for."""
        with self._connect() as connection:
            return unreached.count(connection, self._file, {node.key for node in self._sent})


def resume(
    connect: Callable[[], AbstractContextManager[Connection]],
    transcript: Transcript,
    *,
    rules: str,
    leaf: str | None,
    last: int | None,
    level: View | None = None,
) -> Chain:
    """The chain of a transcript, by the rules asked for. Raises InvalidRequest, and NotFound for an unknown leaf.

    `level` is that of a sub-agent's lines inside a main transcript; without it main lines, or those of an agent's file.
    """
    if rules not in RULES:
        raise InvalidRequest(f"there are no rules {rules!r}; there are: {', '.join(RULES)}")
    if last is not None and last < 0:
        raise InvalidRequest(f"the last {last} entries cannot be given; ask for 0 or more")
    find, find_dropped, find_hidden = RULES[rules]
    with connect() as connection, collection_waits():
        limit = None if last is None else 2 * last + _MARGIN
        while True:
            way = find(connection, transcript.file, level or View(is_agent=transcript.kind == "agent"), leaf, limit)
            dropped = find_dropped(way.lines)
            hidden = find_hidden(way.lines)
            out = dropped | hidden
            shown = [node for node in way.lines if node.key not in out] if out else way.lines
            if last is None or limit is None or not way.is_cut or len(shown) >= last + _MARGIN // 2:
                break
            limit *= 4
    if leaf is not None and way.leaf is None:
        raise NotFound(f"{transcript.path} has no message {leaf}; see: transcripts branches")
    given = shown if last is None else shown[len(shown) - last :] if 0 < last < len(shown) else shown if last else []
    return Chain(
        session=transcript.session_id or "",
        path=transcript.path,
        rules=rules,
        leaf=way.leaf.uuid if way.leaf else None,
        leaf_reason=way.reason,
        joins=tuple(Join(node.uuid, to.uuid if to else None, why) for node, to, why in way.joins),
        dropped=tuple([(node.uuid, out[node.key]) for node in way.lines if node.key in out]) if out else (),
        interruption=_interruption(shown),
        cut=way.is_cut or len(given) < len(shown),
        _file=transcript.file,
        _connect=connect,
        _way=way,
        _shown=given,
        _sent=shown if not hidden else [node for node in way.lines if node.key not in dropped],
    )


def _entries(tree: Tree, lines: list[Node], way: Way) -> Iterator[ChainEntry]:
    for at in range(0, len(lines), _SLICE):
        some = lines[at : at + _SLICE]
        yield from _slice_of(some, way, tree.written([node.key for node in some]))


def _slice_of(lines: list[Node], way: Way, written: dict[int, tuple[Any, ...]]) -> Iterator[ChainEntry]:
    for node in lines:
        _, parent_uuid, subtype, timestamp, asked, output, cache_read, cache_write = written[node.key]
        usage = None
        if asked is not None:
            known = node.key not in way.preserved
            usage = Tokens(asked, output or 0, cache_read or 0, cache_write or 0) if known else Tokens(0, 0, 0, 0)
        yield ChainEntry(
            node.uuid, parent_uuid, node.type, subtype, timestamp, node.message_id, node.key in way.recovered, usage,
            Place(node.offset, node.length, node.crc),
        )  # fmt: skip


def _interruption(shown: list[Node]) -> Interruption:
    """Told by the last line that a person or the model wrote, meta lines aside."""
    answered: set[str] = set()
    for node in reversed(shown):
        if not node.is_turn or (node.is_meta and not node.is_result):
            continue
        if node.flags & ASSISTANT:
            return "interrupted_turn" if any(call not in answered for call in node.calls) else "none"
        if not node.is_result:
            return "interrupted_prompt"
        return "interrupted_turn"
    return "none"


def _problems(path: str, way: Way) -> Iterator[Problem]:
    for node, to, why in way.joins:
        remedy = f"joined to {to.uuid}, the newest line before it" if to else "the chain starts here"
        yield Problem(path, f"{why}: {remedy}", node.offset, node.length, node.uuid)
    answers = {call for node in way.lines if node.result_ids for call in node.answers}
    calls = {call for node in way.lines if node.call_ids for call in node.calls}
    for node in way.lines:
        for call in node.calls:
            if call not in answers:
                yield Problem(path, "a call without a result", node.offset, node.length, call)
        for call in node.answers:
            if call not in calls:
                yield Problem(path, "a result without its call", node.offset, node.length, call)
