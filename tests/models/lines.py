"""Lines of a transcript as both models read them (format, section 2, and the reading parts of 3.1 and 4, Lines).

A transcript is split on LF. Every piece is trimmed and parsed; what is no JSON object is skipped. The map of a transcript
holds user, assistant, system and attachment lines with a string uuid; a user or assistant line whose message is no
object is not in it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

Json = dict[str, Any]

CHAIN_TYPES = ("user", "assistant", "system", "attachment")
NOWHERE = "\0"  # a parent that is no string: it names a line that cannot exist
BLANKS = (
    " \t\n\r\v\f\ufeff\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """One chain line. `position` is the physical line number, `time` milliseconds since 1970 or None."""

    uuid: str
    type: str
    parent: str | None
    position: int
    time: int | None
    raw: Json

    @property
    def is_turn(self) -> bool:
        return self.type in ("user", "assistant")

    @property
    def is_sidechain(self) -> bool:
        return self.raw.get("isSidechain") is True

    @property
    def is_meta(self) -> bool:
        return self.raw.get("isMeta") is True

    @property
    def is_boundary(self) -> bool:
        return self.type == "system" and self.raw.get("subtype") == "compact_boundary"

    @property
    def content(self) -> Any:
        message = self.raw.get("message")
        return message.get("content") if isinstance(message, dict) else None

    @property
    def blocks(self) -> list[Json]:
        """The content as a list of blocks; a string is one text block."""
        content = self.content
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        if isinstance(content, list):
            return [block for block in content if isinstance(block, dict)]
        return []

    @property
    def message_id(self) -> str | None:
        """The message.id of an assistant line; an empty one counts as none."""
        if self.type != "assistant":
            return None
        found = self.raw["message"].get("id")
        return found if isinstance(found, str) and found else None

    @property
    def calls(self) -> list[str]:
        """Ids of the tool_use blocks of an assistant line."""
        if self.type != "assistant":
            return []
        return [block_id(block, "id") for block in self.blocks if block.get("type") == "tool_use"]

    @property
    def answered(self) -> list[str]:
        """Ids of the calls that the tool_result blocks of a user line answer."""
        if self.type != "user":
            return []
        return [block_id(block, "tool_use_id") for block in self.blocks if block.get("type") == "tool_result"]

    @property
    def is_result(self) -> bool:
        return bool(self.answered)

    @property
    def is_user_text(self) -> bool:
        """A prompt: a user line that is neither a result nor meta."""
        return self.type == "user" and not self.is_meta and not self.is_result

    @property
    def is_side(self) -> bool:
        """An attachment, a system line or a meta user line that holds no result."""
        return self.type in ("attachment", "system") or (self.type == "user" and self.is_meta and not self.is_result)


def block_id(block: Json, key: str) -> str:
    found = block.get(key)
    return found if isinstance(found, str) else ""


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_int=float, parse_constant=refuse)


def read_object(text: str, keep_glued: bool) -> Json | None:
    """The object of one trimmed piece. With keep_glued the first of several objects counts, else such a piece is lost."""
    try:
        value, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (end < len(text) and not keep_glued):
        return None
    return value


def read_objects(data: bytes, keep_glued: bool) -> Iterator[tuple[int, Json]]:
    """Physical line number and object of every readable line."""
    for number, piece in enumerate(data.decode("utf-8", errors="replace").split("\n")):
        text = piece.strip(BLANKS)
        value = read_object(text, keep_glued) if text else None
        if value is not None:
            yield number, value


def milliseconds(value: Any) -> int | None:
    """An ISO 8601 timestamp in milliseconds since 1970; None when it is missing, a number or unreadable."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def parent_of(raw: Json) -> str | None:
    """The parentUuid: None when it is null, absent or empty; a value that is no string names no line."""
    parent = raw.get("parentUuid")
    if parent is None or parent == "":
        return None
    return parent if isinstance(parent, str) else NOWHERE


def chain_line(number: int, raw: Json) -> Line | None:
    """The line as it stands in the map, or None when it has no place there."""
    kind = raw.get("type")
    uuid = raw.get("uuid")
    if kind not in CHAIN_TYPES or not isinstance(uuid, str):
        return None
    if kind in ("user", "assistant") and not isinstance(raw.get("message"), dict):
        return None
    return Line(uuid, kind, parent_of(raw), number, milliseconds(raw.get("timestamp")), raw)
