"""The branches of a session: every end that a conversation came to, and where it left the others.

Invariants:
- The first branch is the one that is resumed; the others follow, newest first. Each can be resumed by its leaf.
- The lines of a parallel reply and their results are no branches, though they part the tree: they belong to the chain that
  holds their reply.
- What stands before a compaction ends there: it is a branch of its own, marked so.
- Cost: one pass over the messages of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, Row, select

from transcripts.files.entry import load
from transcripts.index.rows import prompt_of
from transcripts.index.schema import boundaries, messages
from transcripts.sessions.bodies import Place, records


@dataclass(frozen=True, slots=True)
class Branch:
    """One end of a session.

    `length` is the number of lines from its root to its leaf, `fork` the uuid of the last line it shares with a branch before
    it in the list (None: it shares nothing), `own` how many lines it has behind that, `prompt` the first thing a person typed
    there. `started_at` is the time of the first line of its own, `ended_at` of its leaf, in milliseconds since 1970 UTC.
    """

    leaf: str
    kind: Literal["resumed", "branch", "compacted"]
    length: int
    fork: str | None
    own: int
    prompt: str | None
    started_at: int | None
    ended_at: int | None


@dataclass(slots=True)
class Stretch:
    """A piece of the tree without a fork: its first and last line, how many, the first prompt in it, and what follows."""

    first: str
    last: str
    length: int
    prompt: str | None
    started_at: int | None
    ended_at: int | None
    children: list[Stretch] = field(default_factory=list)


@dataclass
class _Found:
    leaf: Row[Any]
    own: list[Row[Any]]  # the lines that no branch before has, root first
    fork: Row[Any] | None
    length: int


def listed(connection: Connection, file: int, resumed: str | None) -> list[Branch]:
    """The branches of a transcript; `resumed` is the leaf that is resumed."""
    found = _found(connection, file, resumed)
    last = connection.scalar(
        select(boundaries.c.offset).where(boundaries.c.file == file).order_by(boundaries.c.offset.desc()).limit(1)
    )
    prompts = _prompts(connection, file, [branch.own for branch in found])
    return [
        Branch(
            branch.leaf.uuid,
            "resumed" if branch.leaf.uuid == resumed else "compacted" if branch.leaf.offset < (last or 0) else "branch",
            branch.length, branch.fork.uuid if branch.fork else None, len(branch.own), prompt,
            branch.own[0].timestamp, branch.leaf.timestamp,
        )
        for branch, prompt in zip(found, prompts, strict=True)
    ]  # fmt: skip


def tree(connection: Connection, file: int, resumed: str | None) -> list[Stretch]:
    """The tree of a transcript as stretches between its forks: one for each root, the resumed one first."""
    found = _found(connection, file, resumed)
    forks = {branch.fork.node for branch in found if branch.fork is not None}
    pieces: list[list[Row[Any]]] = []
    for branch in found:
        pieces.append([])
        for row in branch.own:
            pieces[-1].append(row)
            if row.node in forks and row is not branch.own[-1]:
                pieces.append([])
    stretches: dict[int, Stretch] = {}  # by their last line
    roots: list[Stretch] = []
    for rows, prompt in zip(pieces, _prompts(connection, file, pieces), strict=True):
        one = Stretch(rows[0].uuid, rows[-1].uuid, len(rows), prompt, rows[0].timestamp, rows[-1].timestamp)
        above = stretches.get(rows[0].parent)
        (above.children if above else roots).append(one)
        stretches[rows[-1].node] = one
    return roots


def _found(connection: Connection, file: int, resumed: str | None) -> list[_Found]:
    rows = connection.execute(
        select(
            *messages.c[
                "node", "parent", "offset", "length", "crc", "uuid", "type", "timestamp", "message_id", "result_ids", "is_prompt"
            ]
        )
        .where(messages.c.file == file, messages.c.is_mapped, messages.c.is_sidechain.is_(False))
        .order_by(messages.c.offset)
    ).all()
    by_node = {row.node: row for row in rows}
    parents = {row.parent for row in rows}
    ends = [row for row in rows if row.node not in parents]
    ends.sort(key=lambda row: (row.timestamp is None, -(row.timestamp or 0), -row.offset))
    first = [row for row in rows if row.uuid == resumed]
    taken: dict[int, int] = {}  # node -> lines from its root to it
    replies: set[str] = set()
    found: list[_Found] = []
    for leaf in [*first, *ends]:
        own: list[Row[Any]] = []
        met: set[int] = set()
        at: Row[Any] | None = leaf
        while at is not None and at.node not in taken and at.node not in met:
            own.append(at)
            met.add(at.node)
            at = by_node.get(at.parent)
        fork = at if at is not None and at.node in taken else None
        if not own or (found and not any(_parts(row, by_node, replies) for row in own)):
            continue
        own.reverse()
        before = taken[fork.node] if fork is not None else 0
        taken.update((row.node, before + number) for number, row in enumerate(own, 1))
        replies.update(row.message_id for row in own if row.message_id)
        found.append(_Found(leaf, own, fork, before + len(own)))
    return found


def _parts(row: Row[Any], by_node: dict[int, Row[Any]], replies: set[str]) -> bool:
    """Whether a line is another turn, and not a line or a result of a reply that a branch has already."""
    if row.type == "assistant":
        return row.message_id not in replies
    above = by_node.get(row.parent)
    if row.type == "user" and row.result_ids is not None:
        return above is None or above.message_id not in replies
    return bool(row.type == "user" and row.is_prompt)


def _prompts(connection: Connection, file: int, pieces: list[list[Row[Any]]]) -> list[str | None]:
    """The first thing a person typed in each piece."""
    firsts = [next((row for row in piece if row.is_prompt), None) for piece in pieces]
    wanted = sorted({Place(row.offset, row.length, row.crc) for row in firsts if row is not None})
    texts = {place: prompt_of(load(data)) for place, data in zip(wanted, records(connection, file, wanted), strict=True)}
    return [texts[Place(row.offset, row.length, row.crc)] if row is not None else None for row in firsts]
