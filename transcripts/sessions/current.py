"""The current rules: the chain that client 2.1.332 resumes (FORMAT.md section 3; the numbers name its rules).

Order: size (8), relinks (3), default leaf, pointer test against the recovered chain, side lines (4), walk (5) with joins (6),
recovery (7). The drops (9) are in drops.py, since what is sent to the model needs the lines before them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select

from transcripts.index.schema import files, pointers
from transcripts.sessions.node import ATTACHMENT, SYSTEM, Node
from transcripts.sessions.recovery import recovered
from transcripts.sessions.tree import Tree, View, Way

WHOLE_FILE_LIMIT = 5_242_880  # bytes; of a larger file nothing before its last plain boundary is loaded
JOIN_WINDOW = 5_000  # milliseconds
_FEW = 32  # last lines that are looked at together
_SIZE = select(files.c.kept_size).where(files.c.id == bindparam("file"))
_POINTER = select(pointers).where(pointers.c.file == bindparam("file"), pointers.c.leaf_uuid.is_not(None))


@dataclass(frozen=True)
class _Relinks:
    """What the last boundary preserves: the anchor and the last preserved line, and the lines whose parent was deleted."""

    anchor: int
    last: int
    adopted: frozenset[int]


def find(connection: Connection, file: int, level: View, leaf: str | None = None, last: int | None = None) -> Way:
    """The chain of a transcript before the drops. `leaf` names the line to end at instead of the one the rules choose.

    `level` tells main lines from a sub-agent's. With `last` the walk ends after so many lines, whatever the chain's length.
    """
    whole = Tree(connection, file, level)
    tree, relinks = _relinked(_loaded(connection, whole))
    if leaf is None:
        end, reason = _leaf(connection, tree, relinks)
    else:
        end, reason = tree.by_uuid([leaf]).get(leaf), "asked for"
        if end is None:  # what the last compaction has pruned can be asked for too
            tree, end = whole, whole.by_uuid([leaf]).get(leaf)
    if end is None:
        return Way([], None, reason)
    way = _walked(tree, end, reason, last)
    way.lines, way.recovered = recovered(tree, way.lines)
    return way


# -- what is loaded (8), what is preserved (3) -----------------------------------------------------------------------------


def _loaded(connection: Connection, tree: Tree) -> Tree:
    size = connection.scalar(_SIZE, {"file": tree.file}) or 0
    if size <= WHOLE_FILE_LIMIT:
        return tree
    plain = [node.offset for node, preserved in tree.boundaries if preserved is None]
    return tree.through(replace(tree.view, floor=plain[-1])) if plain else tree


def _relinked(tree: Tree) -> tuple[Tree, _Relinks | None]:
    boundaries = tree.boundaries
    if not any(preserved for _node, preserved in boundaries):
        return tree, None
    boundary, preserved = boundaries[-1]
    if preserved is None:
        return tree.through(replace(tree.view, floor=boundary.offset)), None
    found = _preserved(tree, orjson.loads(preserved))
    if found is None:
        return tree, None
    anchor, kept = found
    keys = [node.key for node in kept]
    parents: dict[int, int | None] = dict(zip(keys, [anchor, *keys], strict=False))
    adopted = {node.key for node in tree.adopted(boundary.offset, keys)}
    moved = adopted | {node.key for node in tree.children(anchor) if node.offset >= boundary.offset and node.key not in parents}
    parents.update(dict.fromkeys(moved, keys[-1]))
    view = replace(tree.view, floor=boundary.offset, kept=frozenset(keys), parents=parents)
    return tree.through(view), _Relinks(anchor, keys[-1], frozenset(adopted))


def _preserved(tree: Tree, metadata: dict[str, Any]) -> tuple[int, list[Node]] | None:
    """The anchor's node and the preserved lines in order; None when anything of it is missing."""
    listed = metadata.get("preservedMessages")
    named = listed if isinstance(listed, dict) else metadata["preservedSegment"]
    anchor = tree.by_uuid(_strings([named.get("anchorUuid")]))
    if not anchor:
        return None
    if isinstance(listed, dict):
        uuids = listed.get("uuids")
        if not isinstance(uuids, list) or not uuids:
            return None
        there = tree.by_uuid(_strings(uuids))
        if any(not isinstance(uuid, str) or uuid not in there for uuid in uuids):
            return None
        kept = [there[uuid] for uuid in uuids]
    else:
        kept = _segment(tree, named.get("headUuid"), named.get("tailUuid"))
    return (next(iter(anchor.values())).key, kept) if kept else None


def _segment(tree: Tree, head: object, tail: object) -> list[Node]:
    """The lines from head to tail; empty when the walk from the tail does not arrive."""
    ends = tree.by_uuid(_strings([head, tail]))
    if not isinstance(head, str) or not isinstance(tail, str) or head not in ends or tail not in ends:
        return []
    first = ends[head].key
    way = tree.walk_until(ends[tail].key, lambda node: node.key == first)
    keys = [node.key for node in way]
    return way[keys.index(first) :: -1] if first in keys else []


def _strings(values: list[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


# -- the leaf (4) ------------------------------------------------------------------------------------------------------------


def _leaf(connection: Connection, tree: Tree, relinks: _Relinks | None) -> tuple[Node | None, str]:
    leaf, reason = _default_leaf(tree, relinks)
    row = connection.execute(_POINTER, {"file": tree.file}).one_or_none()
    pointed = tree.by_uuid([row.leaf_uuid]).get(row.leaf_uuid) if row is not None else None
    if row is not None and pointed is not None and not any(node.offset > row.offset for node, _preserved in tree.boundaries):
        if pointed.is_sidechain and not tree.view.is_agent:
            return None, "the last prompt points to a sidechain"
        if leaf is not None and _is_pointed_away(tree, leaf, pointed, row, relinks):
            leaf, reason = pointed, "the last prompt points to it"
    if leaf is None:
        return None, "no line that is not a sidechain"
    return _below_side_lines(tree, leaf), reason


def _default_leaf(tree: Tree, relinks: _Relinks | None) -> tuple[Node | None, str]:
    leaf, reason = _last_line(tree), "the last line"
    if leaf is None:
        return None, reason
    if tree.children(leaf.key):
        leaf, reason = tree.newest(later_wins=True) or leaf, "the newest line, since the last one has children"
    if relinks is not None and leaf.key == relinks.anchor and not tree.children(relinks.last):
        return tree.by_key([relinks.last])[relinks.last], "the last preserved line"
    return leaf, reason


def _last_line(tree: Tree) -> Node | None:
    """The last line that is no sidechain and whose chain holds a turn; if none does, the last that is no sidechain."""
    before: int | None = None
    first: Node | None = None
    without: set[int] = set()
    while nodes := tree.last_first(before, _FEW):
        for node in nodes:
            first = first or node
            if node.is_turn:
                return node
            if node.key not in without:
                way = tree.walk_until(node.key, lambda line: line.is_turn)
                if any(line.is_turn for line in way):
                    return node
                without.update(line.key for line in way)
        before = nodes[-1].offset
    return first


def _is_pointed_away(tree: Tree, leaf: Node, pointed: Node, row: Any, relinks: _Relinks | None) -> bool:
    """Whether the chain ends at the pointer and not at the default leaf."""
    way = tree.walk_until(leaf.key, lambda node: node.key == pointed.key)
    on_way = {node.key for node in way}
    if pointed.key in on_way or pointed.key in {node.key for node in recovered(tree, way[::-1])[0]}:
        written_after = leaf.offset > row.offset and pointed.key in on_way
        return bool(row.explicit) and not written_after
    crosses = relinks is not None and not relinks.adopted.isdisjoint(on_way)
    return not (crosses and tree.children(pointed.key))


def _below_side_lines(tree: Tree, leaf: Node) -> Node:
    """The last of the attachment and system lines that follow a line, one below the other."""
    met = {leaf.key}
    while below := [node for node in tree.children(leaf.key) if node.flags & (ATTACHMENT | SYSTEM)]:
        if below[0].key in met:
            break
        leaf = below[0]
        met.add(leaf.key)
    return leaf


# -- the walk (5) and its joins (6) --------------------------------------------------------------------------------------------


def _walked(tree: Tree, leaf: Node, reason: str, last: int | None) -> Way:
    """The chain up to its root: a walk for each unbroken stretch, joined over the gaps between them."""
    found = Way([], leaf, reason)
    met: set[int] = set()
    at: Node | None = leaf
    while at is not None:
        way = tree.walk(at.key, None if last is None else last - len(found.lines))
        if met:
            way = list(itertools.takewhile(lambda node: node.key not in met, way))
        found.lines += way
        met.update(node.key for node in way)
        end = found.lines[-1]
        found.is_cut = end.parent is not None and last is not None and len(found.lines) >= last
        if end.parent is None or found.is_cut:
            break
        why = "a parent that is not there" if end.parent not in met else "its own parent" if end.parent == end.key else "a circle"
        at = tree.joinable(end, JOIN_WINDOW, met)
        found.joins.append((end, at, why))
    found.lines.reverse()
    return found
