"""Model of what client 2.1.87 resumed: the `classic` rules (format, section 4).

The functions follow the order of the rules: lines, bridge, preserved segment, snips, leaf, walk, recovery, drops.
Attachments are part of the chain here; the evidence does not show them.
"""

from dataclasses import dataclass, field, replace

from tests.models.lines import BLANKS, Json, Line, chain_line, mapping, parent_of, read_objects


@dataclass
class Transcript:
    lines: dict[str, Line] = field(default_factory=dict)  # uuid -> line, by the first place of the uuid in the file
    parent: dict[str, str | None] = field(default_factory=dict)  # uuid -> parent after bridge, relinks and snips


# Lines and bridge


def read(data: bytes) -> Transcript:
    """The map, with bridged parents. A glued line is lost whole; a repeated uuid keeps its first position and takes the
    last content; only progress lines that stand before a line bridge its parent."""
    transcript = Transcript()
    bridges: dict[str, str | None] = {}
    for number, raw in read_objects(data, keep_glued=False):
        if raw.get("type") == "progress" and isinstance(raw.get("uuid"), str):
            bridges[raw["uuid"]] = bridged(bridges, parent_of(raw))
        line = chain_line(number, raw)
        if line is not None:
            first = transcript.lines.get(line.uuid)
            transcript.lines[line.uuid] = replace(line, position=first.position) if first is not None else line
            transcript.parent[line.uuid] = bridged(bridges, line.parent)
    return transcript


def bridged(bridges: dict[str, str | None], parent: str | None) -> str | None:
    return bridges[parent] if parent is not None and parent in bridges else parent


# Preserved segment


def segment_of(line: Line) -> Json | None:
    found = mapping(line.raw.get("compactMetadata")).get("preservedSegment")
    return found if isinstance(found, dict) else None


def walked_segment(transcript: Transcript, ends: Json) -> set[str]:
    """The lines from tail to head; empty when the walk does not arrive."""
    walked: set[str] = set()
    current = ends.get("tailUuid")
    while isinstance(current, str) and current in transcript.lines and current not in walked:
        walked.add(current)
        if current == ends.get("headUuid"):
            return walked
        current = transcript.parent[current]
    return set()


def apply_segment(transcript: Transcript) -> None:
    """Relink the segment of the last boundary and delete what stands before that boundary. When only an earlier boundary
    has a segment, nothing is relinked and all that stands before the last boundary is deleted."""
    boundaries = [line for line in transcript.lines.values() if line.is_boundary]
    ends = [found for found in map(segment_of, boundaries) if found is not None]
    if not ends:
        return
    last = boundaries[-1]
    preserved: set[str] = set()
    if segment_of(last) is not None:
        preserved = walked_segment(transcript, ends[-1])
        if not preserved:
            return
        relink(transcript, ends[-1])
    for line in list(transcript.lines.values()):
        if line.position < last.position and line.uuid not in preserved:
            del transcript.lines[line.uuid], transcript.parent[line.uuid]


def relink(transcript: Transcript, ends: Json) -> None:
    head, tail, anchor = ends["headUuid"], ends["tailUuid"], ends.get("anchorUuid")
    anchor = anchor if isinstance(anchor, str) else None
    for uuid, parent in transcript.parent.items():
        if anchor is not None and parent == anchor and uuid != head:
            transcript.parent[uuid] = tail
    transcript.parent[head] = anchor


# Snips


def apply_snips(transcript: Transcript) -> None:
    """Remove the lines that snipMetadata names; their children get the nearest ancestor that is left."""
    named: set[str] = set()
    for line in transcript.lines.values():
        uuids = mapping(line.raw.get("snipMetadata")).get("removedUuids")
        if isinstance(uuids, list):
            named.update(uuid for uuid in uuids if isinstance(uuid, str))
    removed = {uuid: transcript.parent[uuid] for uuid in named if uuid in transcript.lines}
    for uuid in removed:
        del transcript.lines[uuid], transcript.parent[uuid]
    left_above: dict[str, str | None] = {}
    for uuid, parent in transcript.parent.items():
        if parent in removed:
            transcript.parent[uuid] = nearest_left(removed, left_above, parent)


def nearest_left(removed: dict[str, str | None], left_above: dict[str, str | None], start: str) -> str | None:
    """The first ancestor that was not removed; None when the removed lines run in a circle."""
    passed: dict[str, None] = {}
    current: str | None = start
    while current is not None and current in removed and current not in passed and current not in left_above:
        passed[current] = None
        current = removed[current]
    if current in passed:
        current = None
    elif current is not None and current in left_above:
        current = left_above[current]
    left_above.update(dict.fromkeys(passed, current))
    return current


# Leaf and walk


def newest_line(transcript: Transcript) -> str | None:
    """The line with the newest timestamp that is no sidechain; of equals the first in the file."""
    newest: Line | None = None
    for line in transcript.lines.values():
        if line.time is None or line.is_sidechain:
            continue
        if newest is None or newest.time is None or line.time > newest.time:
            newest = line
    return None if newest is None else newest.uuid


def walk(transcript: Transcript, leaf: str) -> list[str]:
    """The chain from its root to the leaf: up to a null parent, a missing one or a line already seen."""
    chain: dict[str, None] = {}
    current: str | None = leaf
    while current is not None and current in transcript.lines and current not in chain:
        chain[current] = None
        current = transcript.parent[current]
    return list(chain)[::-1]


# Recovery


def timestamp_text(line: Line) -> str:
    found = line.raw.get("timestamp")
    return found if isinstance(found, str) else ""


def recover(transcript: Transcript, chain: list[str]) -> list[str]:
    """Behind the last line of each message id on the chain: the id's other lines, then the off-chain results that hang on
    its lines, each by timestamp."""
    lines = transcript.lines
    last = {message_id: uuid for uuid in chain if (message_id := lines[uuid].message_id) is not None}
    groups: dict[str, list[Line]] = {message_id: [] for message_id in last}
    results: dict[str, list[Line]] = {}
    for line in lines.values():
        if line.message_id is not None and line.message_id in groups:
            groups[line.message_id].append(line)
        parent = transcript.parent[line.uuid]
        if line.is_result and parent is not None:
            results.setdefault(parent, []).append(line)
    on_chain = set(chain)
    behind: dict[str, list[str]] = {}
    for message_id, group in groups.items():
        siblings = [line for line in group if line.uuid not in on_chain]
        answers = [line for asker in group for line in results.get(asker.uuid, []) if line.uuid not in on_chain]
        answers.sort(key=lambda line: line.position)
        found = sorted(siblings, key=timestamp_text) + sorted(answers, key=timestamp_text)
        behind[last[message_id]] = [line.uuid for line in found]
    return [each for uuid in chain for each in [uuid, *behind.get(uuid, [])]]


# Drops


def block_types(line: Line) -> set[str]:
    return {str(block.get("type")) for block in line.blocks}


def is_blank(line: Line) -> bool:
    texts = [str(block.get("text", "")) for block in line.blocks]
    return line.type == "assistant" and block_types(line) == {"text"} and not "".join(texts).strip(BLANKS)


def without_open_calls(chain: list[Line]) -> list[Line]:
    answered = {call for line in chain for call in line.answered}
    return [line for line in chain if not line.calls or not answered.isdisjoint(line.calls)]


def without_lone_thinking(chain: list[Line]) -> list[Line]:
    """Thinking-only lines stay only when another line of their id says more."""
    thinking = {"thinking", "redacted_thinking"}
    alone = {line.uuid for line in chain if line.type == "assistant" and line.blocks and block_types(line) <= thinking}
    speaking = {line.message_id for line in chain if line.message_id is not None and line.uuid not in alone}
    return [line for line in chain if line.uuid not in alone or line.message_id in speaking]


def without_blank(chain: list[Line]) -> list[Line]:
    """Whitespace-only assistants go, and the user lines on both sides of them become one that keeps the first uuid."""
    kept: list[Line] = []
    joining = False
    for line in chain:
        if is_blank(line):
            joining = True
            continue
        if not (joining and line.type == "user" and kept and kept[-1].type == "user"):
            kept.append(line)
        joining = False
    return kept


def resume(data: bytes) -> list[str] | None:
    """The uuids of the chain that client 2.1.87 resumed, in order; None when there is no conversation."""
    transcript = read(data)
    apply_segment(transcript)
    apply_snips(transcript)
    leaf = newest_line(transcript)
    if leaf is None:
        return None
    chain = [transcript.lines[uuid] for uuid in recover(transcript, walk(transcript, leaf))]
    return [line.uuid for line in without_blank(without_lone_thinking(without_open_calls(chain)))]
