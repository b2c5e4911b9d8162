"""The classic rules: the chain that client 2.1.87 resumed (FORMAT.md section 4).

Order: lines and bridge, preserved segment, snips, leaf, walk, recovery; the drops are here too, since they differ from those
of the current rules. A line with more behind it is lost whole; a repeated uuid keeps its first position; a gap is not bridged.

One difference is known: of a uuid that stands on a line of its own and again at the head of a line with more behind it, the
older client took the first; here it is lost, since the database holds the last line of a uuid.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
from sqlalchemy import Connection

from transcripts.files.entry import load
from transcripts.sessions.bodies import records
from transcripts.sessions.drops import Answered
from transcripts.sessions.node import ASSISTANT, BLANK, THINKING_ONLY, USER, Node
from transcripts.sessions.tree import Tree, View, Way


def find(connection: Connection, file: int, level: View, leaf: str | None = None, last: int | None = None) -> Way:
    """The chain of a transcript before the drops. `leaf` names the line to end at instead of the newest.

    `level` tells main lines from a sub-agent's. With `last` the walk ends after so many lines.
    """
    tree = Tree(connection, file, replace(level, position="first_offset", glued=False))
    tree = whole = tree.through(replace(tree.view, parents=_late_parents(tree)))
    tree, preserved = _segment_relinked(tree)
    tree = _snipped(tree)
    end = tree.newest(later_wins=False) if leaf is None else tree.by_uuid([leaf]).get(leaf)
    if leaf is not None and end is None:  # what was pruned or snipped can be asked for too
        tree, end = whole, whole.by_uuid([leaf]).get(leaf)
    if end is None:
        return Way([], None, "no line with a timestamp that is not a sidechain" if leaf is None else "asked for")
    way = Way(tree.walk(end.key, last)[::-1], end, "the newest line" if leaf is None else "asked for")
    root = way.lines[0]
    way.is_cut = root.parent is not None and last is not None and len(way.lines) >= last
    if root.parent is not None and not way.is_cut:
        met = any(node.key == root.parent for node in way.lines)
        way.joins.append((root, None, "a circle" if met else "a parent that is not there"))
    way.lines, way.recovered = _recovered(connection, tree, way.lines)
    way.preserved = preserved
    return way


def dropped(chain: list[Node]) -> dict[int, str]:
    """The keys of the lines that are left out, with the reason: three passes, each over what the one before has left."""
    answered = Answered(chain)
    found = {node.key: "calls without a result" for node in chain if node.call_ids and not answered.any_of(node)}
    left = [node for node in chain if node.key not in found]
    speaking = {node.message_id for node in left if node.message_id is not None and not node.flags & THINKING_ONLY}
    found |= {node.key: "thinking only" for node in left if node.flags & THINKING_ONLY and node.message_id not in speaking}
    before: Node | None = None  # the last line that stays
    joining = False
    for node in left:
        if node.key in found:
            continue
        if node.flags & BLANK:
            found[node.key] = "nothing but white space"
            joining = True
            continue
        if joining and node.flags & USER and before is not None and before.flags & USER:
            found[node.key] = f"joined to {before.uuid}"
        else:
            before = node
        joining = False
    return found


# -- lines and bridge ----------------------------------------------------------------------------------------------------------


def _late_parents(tree: Tree) -> dict[int, int | None]:
    """Parents that differ from the stored ones, since a progress line bridges only what stands behind it."""
    if not tree.late_progress():
        return {}
    progress = tree.progress()
    named = tree.named_parents([node for _offset, node, _parent in progress])
    bridges: dict[int, int | None] = {}
    parents: dict[int, int | None] = {}
    lines = [(offset, 0, node, parent) for offset, node, parent in progress] + [(offset, 1, *rest) for offset, *rest in named]
    for _offset, is_message, node, parent in sorted(lines, key=lambda line: line[:2]):
        above = bridges.get(parent, parent) if parent is not None else None
        if is_message:
            parents[node] = above
        else:
            bridges[node] = above
    return parents


# -- preserved segment and snips -------------------------------------------------------------------------------------------------


def _segment_relinked(tree: Tree) -> tuple[Tree, frozenset[int]]:
    boundaries = [(node, _segment_of(preserved)) for node, preserved in tree.boundaries]
    if not any(ends for _node, ends in boundaries):
        return tree, frozenset()
    boundary, ends = boundaries[-1]
    kept: frozenset[int] = frozenset()
    parents = dict(tree.view.parents)
    if ends:
        named = tree.by_uuid([uuid for uuid in ends.values() if isinstance(uuid, str)])
        head, tail = (named.get(str(ends.get(name))) for name in ("headUuid", "tailUuid"))
        if head is None or tail is None:
            return tree, frozenset()
        first = head.key
        way = [node.key for node in tree.walk_until(tail.key, lambda node: node.key == first)]
        if first not in way:
            return tree, frozenset()
        kept = frozenset(way[: way.index(head.key) + 1])
        above = _anchor(tree, ends.get("anchorUuid"))
        parents.update(
            (node.key, tail.key) for node in (tree.children(above) if above is not None else []) if node.key != head.key
        )
        parents[head.key] = above
    _timestamp, floor = tree.first_written([boundary.key])[boundary.key]
    return tree.through(replace(tree.view, floor=floor, kept=kept, parents=parents)), kept


def _segment_of(preserved: str | None) -> dict[str, object]:
    segment = orjson.loads(preserved).get("preservedSegment") if preserved else None
    return segment if isinstance(segment, dict) else {}


def _anchor(tree: Tree, uuid: object) -> int | None:
    """The node of the anchor; one that is in no line of the file is a node that is not there."""
    if not isinstance(uuid, str):
        return None
    key = tree.key_of(uuid)
    return -1 if key is None else key


def _snipped(tree: Tree) -> Tree:
    removed = {node.key: node.parent for node in tree.by_uuid(tree.snips()).values()}
    if not removed:
        return tree
    parents = dict(tree.view.parents)
    for key in removed:
        for child in tree.children(key):
            if child.key not in removed:
                parents[child.key] = _nearest_left(removed, key)
    return tree.through(replace(tree.view, parents=parents, gone=frozenset(removed)))


def _nearest_left(removed: dict[int, int | None], key: int) -> int | None:
    """The first ancestor that was not removed; none when the removed lines run in a circle."""
    met: set[int] = set()
    at: int | None = key
    while at is not None and at in removed:
        if at in met:
            return None
        met.add(at)
        at = removed[at]
    return at


# -- recovery ----------------------------------------------------------------------------------------------------


def _recovered(connection: Connection, tree: Tree, chain: list[Node]) -> tuple[list[Node], set[int]]:
    """Behind the last line of each message.id on the chain: the id's other lines, then the results that hang on its lines."""
    last = {node.message_id: node.key for node in chain if node.flags & ASSISTANT and node.message_id is not None}
    if not last:
        return chain, set()
    beside = tree.beside({node.key: node for node in chain})
    siblings: defaultdict[str | None, list[Node]] = defaultdict(list)
    results: defaultdict[str | None, list[Node]] = defaultdict(list)
    reply_of = {node.key: node.message_id for node in chain if node.flags & ASSISTANT and node.message_id is not None}
    for node in beside:
        if node.flags & ASSISTANT and node.message_id in last:
            siblings[node.message_id].append(node)
            reply_of[node.key] = node.message_id
    for node in beside:
        if node.is_result and node.parent in reply_of:
            results[reply_of[node.parent]].append(node)
    groups = [*siblings.values(), *results.values()]
    order = _written_order(connection, tree, [node for group in groups for node in group])
    for group in groups:
        group.sort(key=lambda node: order[node.key])
    behind = {key: siblings[message_id] + results[message_id] for message_id, key in last.items()}
    whole = [each for node in chain for each in (node, *behind.get(node.key, ()))]
    return whole, {node.key for lines in behind.values() for node in lines}


def _written_order(connection: Connection, tree: Tree, nodes: list[Node]) -> dict[int, tuple[str, int]]:
    """The timestamps as texts, which is how the older client compared them, also those that are no times; then the offset."""
    stood = tree.first_written([node.key for node in nodes])
    odd = [node for node in nodes if stood[node.key][0] is None]
    bodies = records(connection, tree.file, [(node.offset, node.length, node.crc) for node in odd])
    texts = {node.key: load(data).get("timestamp") for node, data in zip(odd, bodies, strict=True)}
    return {
        key: (_iso(timestamp) if timestamp is not None else text if isinstance(text := texts[key], str) else "", first_offset)
        for key, (timestamp, first_offset) in stood.items()
    }


def _iso(milliseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
