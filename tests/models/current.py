"""Model of what the client resumes today: the `current` rules (format, section 3).

The functions follow the order of the rules: lines and size (3.1, 3.8), progress bridge (3.2), preserved messages (3.3),
walk with its joins (3.5, 3.6), leaf and pointer (3.4). No conversation (3.10) is None. The parallel recovery (3.7) is in
recovery.py, the drops and what is sent to the model (3.9) in replay.py.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from tests.models import replay
from tests.models.lines import Json, Line, chain_line, mapping, parent_of, read_objects
from tests.models.recovery import recover

WHOLE_FILE_LIMIT = 5_242_880  # bytes
JOIN_WINDOW = 5_000  # milliseconds


@dataclass(frozen=True)
class Pointer:
    """The last last-prompt line with a leafUuid."""

    uuid: str
    explicit: bool
    position: int


@dataclass
class Transcript:
    lines: dict[str, Line] = field(default_factory=dict)  # uuid -> line, in file order
    parent: dict[str, str | None] = field(default_factory=dict)  # uuid -> parent after bridge and relinks
    progress: dict[str, str | None] = field(default_factory=dict)  # uuid of a progress line -> its parent
    pointer: Pointer | None = None
    adopted: set[str] = field(default_factory=set)  # lines whose parent was deleted by the relink
    children: dict[str, list[str]] = field(default_factory=dict)  # uuid -> children in file order
    by_time: list[tuple[int, int, str]] = field(default_factory=list)  # time, -position, uuid of lines that can be joined

    def position(self, uuid: str) -> int:
        return self.lines[uuid].position


# Lines and size


def preserved_metadata(line: Line) -> Json:
    """The compactMetadata of a boundary that carries preserved messages or a preserved segment, else an empty object."""
    metadata = mapping(line.raw.get("compactMetadata"))
    if isinstance(metadata.get("preservedMessages"), dict) or isinstance(metadata.get("preservedSegment"), dict):
        return metadata
    return {}


def loaded_objects(data: bytes) -> list[tuple[int, Json]]:
    """The objects of the file; of a file over the limit those from its last plain boundary on."""
    objects = list(read_objects(data, keep_glued=True))
    if len(data) <= WHOLE_FILE_LIMIT:
        return objects
    for index in range(len(objects) - 1, -1, -1):
        line = chain_line(*objects[index])
        if line is not None and line.is_boundary and not preserved_metadata(line):
            return objects[index:]
    return objects


def read(data: bytes) -> Transcript:
    transcript = Transcript()
    for number, raw in loaded_objects(data):
        line = chain_line(number, raw)
        if line is not None:
            transcript.lines.pop(line.uuid, None)  # a later line of the same uuid takes over content and position
            transcript.lines[line.uuid] = line
        elif raw.get("type") == "progress" and isinstance(raw.get("uuid"), str):
            transcript.progress[raw["uuid"]] = parent_of(raw)
        elif raw.get("type") == "last-prompt" and isinstance(raw.get("leafUuid"), str):
            transcript.pointer = Pointer(raw["leafUuid"], raw.get("explicit") is True, number)
    return transcript


# Progress bridge


def bridge(transcript: Transcript) -> None:
    """A parent that is a progress line is replaced by that line's parent, repeatedly. A circle of them is a gap."""
    for line in transcript.lines.values():
        parent = line.parent
        passed: set[str] = set()
        while parent is not None and parent in transcript.progress and parent not in transcript.lines and parent not in passed:
            passed.add(parent)
            parent = transcript.progress[parent]
        transcript.parent[line.uuid] = parent


# Preserved messages


def segment(transcript: Transcript, head: str, tail: str) -> list[str]:
    """The lines from head to tail along parentUuid; empty when the walk from the tail does not arrive."""
    walked: list[str] = []
    seen: set[str] = set()
    current: str | None = tail
    while current is not None and current in transcript.lines and current not in seen:
        walked.append(current)
        seen.add(current)
        if current == head:
            return walked[::-1]
        current = transcript.parent[current]
    return []


def preserved_list(transcript: Transcript, metadata: Json) -> tuple[str, list[str]] | None:
    """Anchor and preserved lines in order; None when something is missing."""
    messages = metadata.get("preservedMessages")
    if isinstance(messages, dict):
        anchor, uuids = messages.get("anchorUuid"), messages.get("uuids")
    else:
        ends = mapping(metadata.get("preservedSegment"))
        head, tail = ends.get("headUuid"), ends.get("tailUuid")
        anchor = ends.get("anchorUuid")
        uuids = segment(transcript, head, tail) if isinstance(head, str) and isinstance(tail, str) else []
    if not isinstance(anchor, str) or anchor not in transcript.lines or not isinstance(uuids, list) or not uuids:
        return None
    if any(not isinstance(uuid, str) or uuid not in transcript.lines for uuid in uuids):
        return None
    return anchor, uuids


def delete_before(transcript: Transcript, boundary: Line, kept: set[str]) -> set[str]:
    deleted = {line.uuid for line in transcript.lines.values() if line.position < boundary.position and line.uuid not in kept}
    for uuid in deleted:
        del transcript.lines[uuid], transcript.parent[uuid]
    return deleted


def relink_preserved(transcript: Transcript) -> tuple[str, str] | None:
    """Apply the last boundary. The anchor and the last preserved line when preserved lines were relinked, else None."""
    boundaries = [line for line in transcript.lines.values() if line.is_boundary]
    if not boundaries:
        return None
    last = boundaries[-1]
    metadata = preserved_metadata(last)
    if not metadata:
        if any(preserved_metadata(line) for line in boundaries):
            delete_before(transcript, last, set())
        return None
    found = preserved_list(transcript, metadata)
    if found is None:
        return None
    anchor, uuids = found
    kept = set(uuids)
    deleted = delete_before(transcript, last, kept)
    for uuid, parent in transcript.parent.items():
        if uuid not in kept and (parent == anchor or parent in deleted):
            transcript.parent[uuid] = uuids[-1]
            if parent in deleted:
                transcript.adopted.add(uuid)
    for above, uuid in zip([anchor, *uuids], uuids, strict=False):
        transcript.parent[uuid] = above
    return anchor, uuids[-1]


def index(transcript: Transcript) -> None:
    """Children in file order, and the lines that a dangling parent can join, by time."""
    for uuid, parent in transcript.parent.items():
        if parent is not None:
            transcript.children.setdefault(parent, []).append(uuid)
    joinable = [line for line in transcript.lines.values() if line.time is not None and not line.is_sidechain]
    transcript.by_time = sorted((line.time or 0, -line.position, line.uuid) for line in joinable)


# Walk and joins


def earlier_line(transcript: Transcript, line: Line, seen: set[str], below: dict[int, int]) -> str | None:
    """The newest line that is at most JOIN_WINDOW older and not in the chain yet; of equals the first in the file.
    `below` leads past places whose lines are in the chain."""
    if line.time is None:
        return None
    place = bisect_right(transcript.by_time, (line.time, 1, "")) - 1
    passed: list[int] = []
    while place >= 0 and transcript.by_time[place][2] in seen:
        passed.append(place)
        place = below.get(place, place - 1)
    below.update(dict.fromkeys(passed, place))
    if place < 0 or transcript.by_time[place][0] < line.time - JOIN_WINDOW:
        return None
    return transcript.by_time[place][2]


def walk(transcript: Transcript, leaf: str, joins: bool) -> list[str]:
    """The chain from its root to the leaf. Without joins it ends at a missing parent or at a line already seen."""
    chain: list[str] = []
    seen: set[str] = set()
    below: dict[int, int] = {}
    current: str | None = leaf
    while current is not None:
        chain.append(current)
        seen.add(current)
        above = transcript.parent[current]
        if above is not None and (above not in transcript.lines or above in seen):
            above = earlier_line(transcript, transcript.lines[current], seen, below) if joins else None
        current = above
    return chain[::-1]


# Leaf


def holds_turn(transcript: Transcript, uuid: str, without: set[str]) -> bool:
    """Whether the plain chain of a line holds a user or assistant line; `without` collects the lines whose does not."""
    current: str | None = uuid
    while current is not None and current in transcript.lines and current not in without:
        if transcript.lines[current].is_turn:
            return True
        without.add(current)
        current = transcript.parent[current]
    return False


def last_line(transcript: Transcript) -> str | None:
    """The last line that is no sidechain and whose chain holds a turn; if none does, the last that is no sidechain."""
    main = [line.uuid for line in transcript.lines.values() if not line.is_sidechain]
    without: set[str] = set()
    for uuid in reversed(main):
        if holds_turn(transcript, uuid, without):
            return uuid
    return main[-1] if main else None


def newest_line(transcript: Transcript) -> str | None:
    timed = [
        (line.time, line.position, line.uuid)
        for line in transcript.lines.values()
        if line.time is not None and not line.is_sidechain
    ]
    return max(timed)[2] if timed else None


def default_leaf(transcript: Transcript, relinked: tuple[str, str] | None) -> str | None:
    leaf = last_line(transcript)
    if leaf is not None and transcript.children.get(leaf):
        leaf = newest_line(transcript) or leaf
    if relinked is not None and leaf == relinked[0] and not transcript.children.get(relinked[1]):
        return relinked[1]
    return leaf


def usable_pointer(transcript: Transcript) -> Pointer | None:
    """The pointer, unless it names a line that is not in the map or a compact boundary was written after it."""
    pointer = transcript.pointer
    if pointer is None or pointer.uuid not in transcript.lines:
        return None
    if any(line.is_boundary and line.position > pointer.position for line in transcript.lines.values()):
        return None
    return pointer


def pointed_leaf(transcript: Transcript, leaf: str, pointer: Pointer) -> str:
    """The leaf after the pointer test. A rule that the format does not name, and one recorded case shows: outside a default
    chain that runs through a line whose parent the relink deleted, only a pointer without children counts."""
    plain = walk(transcript, leaf, joins=False)
    if pointer.uuid in recover(transcript.lines, transcript.parent, transcript.children, plain):
        written_after = transcript.position(leaf) > pointer.position and pointer.uuid in plain
        return pointer.uuid if pointer.explicit and not written_after else leaf
    if transcript.children.get(pointer.uuid) and not transcript.adopted.isdisjoint(plain):
        return leaf
    return pointer.uuid


def with_side_lines(transcript: Transcript, leaf: str) -> str:
    """The last of the attachment and system lines that follow the leaf, one below the other."""
    passed = {leaf}
    while True:
        below = [uuid for uuid in transcript.children.get(leaf, []) if transcript.lines[uuid].type in ("attachment", "system")]
        if not below or below[0] in passed:
            return leaf
        leaf = below[0]
        passed.add(leaf)


def find_leaf(transcript: Transcript, relinked: tuple[str, str] | None) -> str | None:
    leaf = default_leaf(transcript, relinked)
    pointer = usable_pointer(transcript)
    if pointer is not None and transcript.lines[pointer.uuid].is_sidechain:
        return None
    if leaf is None:
        return None
    if pointer is not None:
        leaf = pointed_leaf(transcript, leaf, pointer)
    return with_side_lines(transcript, leaf)


# The whole


def chain_lines(data: bytes) -> list[Line] | None:
    """The chain before the drops; None when there is no conversation."""
    transcript = read(data)
    bridge(transcript)
    relinked = relink_preserved(transcript)
    index(transcript)
    leaf = find_leaf(transcript, relinked)
    if leaf is None:
        return None
    chain = walk(transcript, leaf, joins=True)
    return [transcript.lines[uuid] for uuid in recover(transcript.lines, transcript.parent, transcript.children, chain)]


def resume(data: bytes) -> list[str] | None:
    """The uuids of the chain that the client resumes, in order; None when there is no conversation."""
    chain = chain_lines(data)
    return None if chain is None else [line.uuid for line in replay.kept(chain) if not replay.is_empty_assistant(line)]


def sent(data: bytes) -> list[tuple[str, str | None, str]]:
    """What is sent to the model: role, uuid of the line (None for a part made up) and kind of every part, in order."""
    return [(part.role, part.uuid, part.kind) for part in sent_parts(data)]


def sent_parts(data: bytes) -> list[replay.Part]:
    """What is sent to the model, with the texts."""
    chain = chain_lines(data)
    return [] if chain is None else replay.parts(chain)
