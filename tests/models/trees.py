"""Strategies that generate transcripts for the comparison of rules (format, sections 2 to 4).

`ordinary_transcripts` writes what a client would write: prompts, replies of one line a block, parallel calls, forks,
compactions, snips, pointers, progress lines, sub-agents in the same file. `wild_transcripts` damages such a file: gaps,
circles, repeated uuids, moved lines, broken metadata, torn and glued lines. Uuids are small and counted up, so that a
found example can be read.

Left out, because the rules do not say what holds: a preserved list that names a line twice or names its own anchor, and
one uuid for a progress line and a chain line.
"""

import json
from collections.abc import Callable

from hypothesis import strategies as st

from tests.models.lines import CHAIN_TYPES, Json, mapping
from tests.models.writer import ABSENT, MOVES, SESSION, Writer, prompt, reply, small_uuid, stamp, text, thinking


@st.composite
def ordinary_lines(draw: st.DrawFn) -> list[Json]:
    writer = Writer(draw)
    prompt(writer)
    reply(writer)
    for move in draw(st.lists(st.sampled_from(MOVES), max_size=10)):
        move(writer)
    return writer.lines


# Damage


def some_uuid(draw: st.DrawFn, lines: list[Json]) -> str:
    uuids = [str(line["uuid"]) for line in lines if isinstance(line.get("uuid"), str)]
    return draw(st.sampled_from(uuids or [ABSENT]))


def some_chain_line(draw: st.DrawFn, lines: list[Json]) -> Json:
    return draw(st.sampled_from([line for line in lines if line.get("type") in CHAIN_TYPES] or [{}]))


def drop_line(draw: st.DrawFn, lines: list[Json]) -> None:
    del lines[draw(st.integers(0, len(lines) - 1))]


def move_line(draw: st.DrawFn, lines: list[Json]) -> None:
    line = lines.pop(draw(st.integers(0, len(lines) - 1)))
    lines.insert(draw(st.integers(0, len(lines))), line)


def turn_around(draw: st.DrawFn, lines: list[Json]) -> None:
    start = draw(st.integers(0, len(lines) - 1))
    lines[start:] = lines[start:][::-1]


def repeat_line(draw: st.DrawFn, lines: list[Json]) -> None:
    """The same uuid once more, as it was or with another parent or another message."""
    copy = dict(some_chain_line(draw, lines))
    change = draw(st.integers(1, 4))
    if change == 1:
        copy["parentUuid"] = some_uuid(draw, lines)
    if change == 2:
        copy["timestamp"] = stamp(draw(st.integers(-20_000, 200_000)))
    if change == 3 and copy.get("type") == "user":
        copy["message"] = {"role": "user", "content": "another text"}
    lines.insert(draw(st.integers(0, len(lines))), copy)


def change_parent(draw: st.DrawFn, lines: list[Json]) -> None:
    """Gaps, circles, lines that are their own parent, second roots."""
    line = some_chain_line(draw, lines)
    line["parentUuid"] = draw(st.sampled_from([None, ABSENT, 7, line.get("uuid"), *[some_uuid(draw, lines)] * 4]))


def change_time(draw: st.DrawFn, lines: list[Json]) -> None:
    other = some_chain_line(draw, lines).get("timestamp")
    near = stamp(draw(st.integers(-20_000, 200_000)))
    line = some_chain_line(draw, lines)
    line["timestamp"] = draw(st.sampled_from([None, "soon", 1_796_000_000_000, other, near, near]))
    if line["timestamp"] is None:
        del line["timestamp"]


def change_flag(draw: st.DrawFn, lines: list[Json]) -> None:
    some_chain_line(draw, lines)[draw(st.sampled_from(["isSidechain", "isMeta"]))] = draw(st.booleans())


def change_message(draw: st.DrawFn, lines: list[Json]) -> None:
    line = some_chain_line(draw, lines)
    if line.get("type") not in ("user", "assistant"):
        return
    content: object = draw(st.sampled_from([[], [text(" ")], [thinking()], [text("x"), text("y")]]))
    message_id = draw(st.sampled_from(["", "msg_1", "msg_2", "msg_3", None]))
    change = draw(st.integers(1, 4))
    if change == 1:
        line["message"] = None
    elif change == 2:
        line["message"] = {**mapping(line.get("message")), "content": content}
    elif line["type"] == "assistant":
        line["message"] = {**mapping(line.get("message")), "id": message_id}


def change_source(draw: st.DrawFn, lines: list[Json]) -> None:
    askers = [line for line in lines if "sourceToolAssistantUUID" in line]
    if askers:
        draw(st.sampled_from(askers))["sourceToolAssistantUUID"] = some_uuid(draw, lines)


def change_boundary(draw: st.DrawFn, lines: list[Json]) -> None:
    """Break the preserved metadata of a boundary."""
    boundaries = [line for line in lines if line.get("subtype") == "compact_boundary"]
    if not boundaries:
        return
    metadata = json.loads(json.dumps(mapping(draw(st.sampled_from(boundaries)).get("compactMetadata"))))
    key = draw(st.sampled_from(["preservedMessages", "preservedSegment"]))
    if key in metadata:
        metadata[key] |= draw(st.sampled_from([{"anchorUuid": ABSENT}, {"uuids": []}, {"uuids": [ABSENT]}, {"tailUuid": ABSENT}]))
    draw(st.sampled_from(boundaries))["compactMetadata"] = metadata


def add_boundary(draw: st.DrawFn, lines: list[Json]) -> None:
    uuid = small_uuid(700 + len(lines))
    line: Json = {"parentUuid": None, "isSidechain": draw(st.booleans()), "type": "system", "uuid": uuid}
    line |= {
        "timestamp": stamp(5_000),
        "sessionId": SESSION,
        "subtype": "compact_boundary",
        "compactMetadata": {"trigger": "auto"},
    }
    lines.insert(draw(st.integers(0, len(lines))), line)


def add_pointer(draw: st.DrawFn, lines: list[Json]) -> None:
    line: Json = {"type": "last-prompt", "sessionId": SESSION, "leafUuid": some_uuid(draw, lines)}
    line |= {"explicit": True} if draw(st.booleans()) else {}
    lines.insert(draw(st.integers(0, len(lines))), line)


def add_snip(draw: st.DrawFn, lines: list[Json]) -> None:
    named = [some_uuid(draw, lines) for _ in range(draw(st.integers(1, 3)))]
    some_chain_line(draw, lines)["snipMetadata"] = {"removedUuids": named}


Damage = Callable[[st.DrawFn, list[Json]], None]
DAMAGES: list[Damage] = [
    *[change_parent] * 4,
    *[drop_line, move_line, repeat_line, change_time, change_message, add_pointer] * 2,
    *[turn_around, change_flag, change_source, change_boundary, add_boundary, add_snip],
]


@st.composite
def wild_lines(draw: st.DrawFn) -> list[Json]:
    lines: list[Json] = json.loads(json.dumps(draw(ordinary_lines())))  # no two lines share an object
    for damage in draw(st.lists(st.sampled_from(DAMAGES), min_size=1, max_size=8)):
        if lines:
            damage(draw, lines)
    return lines


# Bytes


def to_bytes(lines: list[Json]) -> bytes:
    """The file of these lines."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def ordinary_transcripts() -> st.SearchStrategy[bytes]:
    """Files as a client would write them."""
    return ordinary_lines().map(to_bytes)


@st.composite
def wild_transcripts(draw: st.DrawFn) -> bytes:
    """Files that are damaged in their lines and, sometimes, in their bytes."""
    pieces = to_bytes(draw(wild_lines())).split(b"\n")
    for fault in draw(st.lists(st.sampled_from(["garbage", "torn", "glued", "blank", "nul", "no end"]), max_size=2)):
        place = draw(st.integers(0, len(pieces) - 1))
        if fault == "garbage":
            pieces.insert(place, draw(st.sampled_from([b"not json", b"[]", b"1", b"null", b'{"a": NaN}', b"\xff\xfe"])))
        elif fault == "torn":
            pieces[place] = pieces[place][: len(pieces[place]) // 2]
        elif fault == "glued":
            pieces[place : place + 2] = [b"".join(pieces[place : place + 2])]
        elif fault == "blank":
            pieces[place] = b"  " + pieces[place] + b"\r"
        elif fault == "nul":
            pieces[place] = b"\0\0" + pieces[place]
        elif pieces[-1] == b"":
            pieces.pop()
    return b"\n".join(pieces)
