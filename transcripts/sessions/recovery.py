"""The lines of parallel replies that a walk along parents does not meet (FORMAT.md 3.7).

A reply is written as one line a content block, its results hang on the line that made the call, so a walk sees one branch of
it. For every message.id on the chain the other lines come back: siblings first, then results and side lines, each in file
order, behind the last line of the id on the chain, merged with the results that follow there.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter

from transcripts.sessions.node import ASSISTANT, ATTACHMENT, Node
from transcripts.sessions.tree import Tree

_OFFSET = attrgetter("offset")


@dataclass(slots=True)
class _Reply:
    """The lines of one message.id: all of them, those off the chain, the results of its calls, and its last on the chain."""

    last: int
    lines: list[Node] = field(default_factory=list)
    siblings: list[Node] = field(default_factory=list)
    results: list[Node] = field(default_factory=list)


def recovered(tree: Tree, chain: list[Node]) -> tuple[list[Node], set[int]]:
    """The chain with what belongs to its replies, and the keys of the lines that were put in."""
    on_chain = {node.key: node for node in chain}
    off_chain = tree.beside(on_chain)
    if not off_chain:
        return chain, set()
    replies = _replies(chain, on_chain, off_chain)
    sides = _Sides(tree, replies, off_chain)
    used: set[int] = set()
    inserted: dict[int, list[Node]] = {}  # behind this place of the chain
    goes_on: dict[int, int] = {}  # the place behind the lines that were merged into what was inserted
    for reply in replies:
        siblings = [node for node in reply.siblings if node.key not in used]
        if not siblings and not any(node.call_ids for node in reply.lines):
            continue
        results = [node for node in reply.results if node.key not in on_chain and node.key not in used]
        used.update([node.key for node in siblings])
        used.update([node.key for node in results])
        others = results + sides.below([*reply.lines, *reply.results], used)
        if siblings or others:
            following = _following(chain, reply)
            inserted[reply.last] = _merged(_siblings_first(siblings, others), chain[following.start : following.stop])
            goes_on[reply.last] = following.stop
    whole: list[Node] = []
    start = 0
    for at in sorted(inserted):
        whole += chain[start : at + 1]
        whole += inserted[at]
        start = goes_on[at]
    return whole + chain[start:], used


def _replies(chain: list[Node], on_chain: dict[int, Node], off_chain: list[Node]) -> list[_Reply]:
    """The replies of the chain that something off the chain belongs to, by their first line, with all that is theirs."""
    hung_on = {key for node in off_chain for key in (node.parent, node.source)}
    above = [on_chain[key] for key in hung_on if key in on_chain]
    asked = {key for node in above if node.result_ids is not None for key in (node.parent, node.source)}
    above += [on_chain[key] for key in asked if key in on_chain]
    touched = {node.message_id for node in itertools.chain(off_chain, above)}
    replies: dict[str | None, _Reply] = {}
    reply_of: dict[int | None, _Reply] = {}
    touched.discard(None)
    for at, node in enumerate(chain):
        if (message_id := node.message_id) in touched:
            reply = replies.get(message_id)
            if reply is None:
                reply = replies[message_id] = _Reply(at)
            reply_of[node.key] = reply
            reply.last = at
            reply.lines.append(node)
    for node in off_chain:
        if found := replies.get(node.message_id):
            found.lines.append(node)
            found.siblings.append(node)
            reply_of[node.key] = found
    for node in itertools.chain(chain, off_chain):
        if node.result_ids is not None:
            caller = reply_of.get(node.parent)
            named = reply_of.get(node.source) if node.source is not None else None
            if caller is not None:
                caller.results.append(node)
            if named is not None and named is not caller:
                named.results.append(node)
    return list(replies.values())


class _Sides:
    """The side lines off the chain: attachments always, system and meta lines unless a turn stands below them."""

    def __init__(self, tree: Tree, replies: list[_Reply], off_chain: list[Node]) -> None:
        self._below: defaultdict[int | None, list[Node]] = defaultdict(list)
        for node in off_chain:
            if node.is_side:
                self._below[node.parent].append(node)
        self._above_turns: set[int] = set()
        found = self.below([node for reply in replies for node in (*reply.lines, *reply.results)], set())
        self._above_turns = tree.above_turns([node.key for node in found if not node.flags & ATTACHMENT])

    def below(self, roots: list[Node], used: set[int]) -> list[Node]:
        """Those that hang below the roots and were not used before; they are then."""
        found: list[Node] = []
        open_keys = [node.key for node in roots if node.key in self._below]
        while open_keys:
            for node in self._below.get(open_keys.pop(), ()):
                if node.key not in used and node.key not in self._above_turns:
                    used.add(node.key)
                    found.append(node)
                    open_keys.append(node.key)
        return found


def _siblings_first(siblings: list[Node], others: list[Node]) -> list[Node]:
    """Siblings, then the rest, each in file order; a result that is the parent of a sibling goes before it."""
    siblings.sort(key=_OFFSET)
    others.sort(key=_OFFSET)
    results = {node.key: node for node in others if node.result_ids is not None}
    ordered: dict[int, Node] = {}
    for node in siblings:
        if node.parent in results:
            ordered[node.parent] = results[node.parent]
        ordered[node.key] = node
    for node in others:
        ordered[node.key] = node
    return list(ordered.values())


def _following(chain: list[Node], reply: _Reply) -> range:
    """The places of the reply's results, and of side lines among them, that follow its last line on the chain."""
    results = {node.key for node in reply.results}
    end = reply.last + 1
    while end < len(chain) and (chain[end].key in results or chain[end].is_side):
        end += 1
    return range(reply.last + 1, end)


def _merged(found: list[Node], following: list[Node]) -> list[Node]:
    """Found lines merged by file position with those that follow on the chain; an assistant line not before its parent."""
    place_of = {node.key: place for place, node in enumerate(following)}
    merged: list[Node] = []
    at = 0
    for node in found:
        after = place_of.get(node.parent, -1) + 1 if node.flags & ASSISTANT and node.parent is not None else 0
        while at < len(following) and (at < after or following[at].offset < node.offset):
            merged.append(following[at])
            at += 1
        merged.append(node)
    return merged + following[at:]
