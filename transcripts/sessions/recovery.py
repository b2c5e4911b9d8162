"""The lines of parallel replies that a walk along parents does not meet (FORMAT.md 3.7).

A reply is written as one line a content block, its results hang on the line that made the call, so a walk sees one branch of
it. For every message.id on the chain the other lines come back: siblings first, then results and side lines, each in file
order, behind the last line of the id on the chain, merged with the results that follow there.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from transcripts.sessions.tree import Node, Tree


@dataclass
class _Reply:
    """The lines of one message.id: all of them, those off the chain, the results of its calls, and its last on the chain."""

    last: int
    lines: list[Node] = field(default_factory=list)
    siblings: list[Node] = field(default_factory=list)
    results: list[Node] = field(default_factory=list)


def recovered(tree: Tree, chain: list[Node]) -> tuple[list[Node], set[int]]:
    """The chain with what belongs to its replies, and the keys of the lines that were put in."""
    off_chain = tree.beside(chain)
    if not off_chain:
        return chain, set()
    replies = _replies(chain, off_chain)
    sides = _Sides(tree, off_chain)
    on_chain = {node.key for node in chain}
    used: set[int] = set()
    inserted: dict[int, list[Node]] = {}  # behind this place of the chain
    taken: set[int] = set()  # places of the chain whose lines were merged into what was inserted
    for reply in replies:
        siblings = [node for node in reply.siblings if node.key not in used]
        if not siblings and not any(node.call_ids for node in reply.lines):
            continue
        results = [node for node in reply.results if node.key not in on_chain and node.key not in used]
        used.update(node.key for node in [*siblings, *results])
        others = results + sides.below([*reply.lines, *reply.results], used)
        if siblings or others:
            following = _following(chain, reply)
            behind = [chain[at] for at in following]
            inserted[reply.last] = _merged(_siblings_first(siblings, others), behind)
            taken.update(following)
    whole: list[Node] = []
    start = 0
    for at in sorted(inserted):  # whole stretches of the chain are taken over as they are
        whole += [chain[place] for place in range(start, at + 1) if place not in taken]
        whole += inserted[at]
        start = at + 1
    return whole + [chain[place] for place in range(start, len(chain)) if place not in taken], used


def _replies(chain: list[Node], off_chain: list[Node]) -> list[_Reply]:
    """The replies of the chain that something off the chain belongs to, by their first line, with all that is theirs."""
    wanted = {key for node in off_chain for key in (node.parent, node.source)}
    touched = {node.message_id for node in off_chain if node.message_id is not None}
    for node in chain:
        if node.key in wanted:
            if node.message_id is not None:
                touched.add(node.message_id)
            elif node.result_ids is not None:
                wanted.update((node.parent, node.source))
    touched.update(node.message_id for node in chain if node.message_id is not None and node.key in wanted)
    replies: dict[str, _Reply] = {}
    reply_of: dict[int | None, _Reply] = {}
    for at, node in enumerate(chain):
        if node.message_id in touched and node.message_id is not None:
            reply = reply_of[node.key] = replies.setdefault(node.message_id, _Reply(at))
            reply.last = at
            reply.lines.append(node)
    for node in off_chain:
        if node.message_id is not None and (found := replies.get(node.message_id)):
            found.lines.append(node)
            found.siblings.append(node)
            reply_of[node.key] = found
    for node in itertools.chain(chain, off_chain):
        if node.result_ids is not None:
            asked = reply_of.get(node.parent)
            named = reply_of.get(node.source) if node.source is not None else None
            if asked is not None:
                asked.results.append(node)
            if named is not None and named is not asked:
                named.results.append(node)
    return list(replies.values())


class _Sides:
    """The side lines off the chain: attachments always, system and meta lines unless a turn stands below them."""

    def __init__(self, tree: Tree, off_chain: list[Node]) -> None:
        self._below: defaultdict[int | None, list[Node]] = defaultdict(list)
        sides = [node for node in off_chain if node.is_side]
        above = tree.above_turns([node.key for node in sides if node.type != "attachment"])
        for node in sides:
            if node.key not in above:
                self._below[node.parent].append(node)

    def below(self, roots: list[Node], used: set[int]) -> list[Node]:
        """Those that hang below the roots and were not used before; they are then."""
        found: list[Node] = []
        open_keys = [node.key for node in roots]
        while open_keys:
            for node in self._below.get(open_keys.pop(), ()):
                if node.key not in used:
                    used.add(node.key)
                    found.append(node)
                    open_keys.append(node.key)
        return found


def _siblings_first(siblings: list[Node], others: list[Node]) -> list[Node]:
    """Siblings, then the rest, each in file order; a result that is the parent of a sibling goes before it."""
    results = {node.key: node for node in others if node.is_result}
    ordered: dict[int, Node] = {}
    for node in sorted(siblings, key=lambda node: node.offset):
        if node.parent in results:
            ordered[node.parent] = results[node.parent]
        ordered[node.key] = node
    for node in sorted(others, key=lambda node: node.offset):
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
        after = place_of.get(node.parent, -1) + 1 if node.type == "assistant" and node.parent is not None else 0
        while at < len(following) and (at < after or following[at].offset < node.offset):
            merged.append(following[at])
            at += 1
        merged.append(node)
    return merged + following[at:]
