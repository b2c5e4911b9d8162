"""A message as the rules of a chain see it, and the columns that a query fetches for it.

Invariants:
- A chain is as long as its session, so a Node holds what the rules ask of every line and no more: what is yes or no is packed
  into one number, and all else that stands on a line is asked for by its key.
- COLUMNS are in the order of the fields, for a table `messages` called `m`.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

USER, ASSISTANT, ATTACHMENT, SYSTEM = 1, 2, 4, 8
META, SIDECHAIN, THINKING_ONLY, BLANK, EMPTY_CONTENT = 16, 32, 64, 128, 256
BOUNDARY, LOCAL_COMMAND = 512, 1024

_TYPES = {USER: "user", ASSISTANT: "assistant", ATTACHMENT: "attachment", SYSTEM: "system"}
_ANY_TYPE = USER | ASSISTANT | ATTACHMENT | SYSTEM

COLUMNS = f"""m.node, {{parent}}, m.source, m."offset", m.length, m.crc,
    CASE m.type WHEN 'user' THEN {USER} WHEN 'assistant' THEN {ASSISTANT} WHEN 'attachment' THEN {ATTACHMENT} ELSE {SYSTEM} END
    + CASE WHEN m.is_meta THEN {META} ELSE 0 END + CASE WHEN m.is_sidechain THEN {SIDECHAIN} ELSE 0 END
    + CASE WHEN m.thinking_only THEN {THINKING_ONLY} ELSE 0 END + CASE WHEN m.blank THEN {BLANK} ELSE 0 END
    + CASE WHEN m.empty_content THEN {EMPTY_CONTENT} ELSE 0 END
    + CASE m.subtype WHEN 'compact_boundary' THEN {BOUNDARY} WHEN 'local_command' THEN {LOCAL_COMMAND} ELSE 0 END,
    m.uuid, m.message_id, m.call_ids, m.result_ids"""


class Node(NamedTuple):
    """A message; `parent` is the one of the view. `flags` are its type and what is true of it, as the constants name it."""

    key: int
    parent: int | None
    source: int | None
    offset: int
    length: int
    crc: int
    flags: int
    uuid: str
    message_id: str | None
    call_ids: str | None
    result_ids: str | None

    @property
    def type(self) -> str:
        """user, assistant, attachment or system."""
        return _TYPES[self.flags & _ANY_TYPE]

    @property
    def is_turn(self) -> bool:
        """A user or assistant line."""
        return self.flags & (USER | ASSISTANT) != 0

    @property
    def is_result(self) -> bool:
        """A user line that holds a tool result."""
        return self.result_ids is not None

    @property
    def is_side(self) -> bool:
        """An attachment, a system line, or a meta user line without a result."""
        if self.flags & (ATTACHMENT | SYSTEM):
            return True
        return self.flags & (USER | META) == USER | META and self.result_ids is None

    @property
    def is_meta(self) -> bool:
        """Not something that a person typed."""
        return self.flags & META != 0

    @property
    def is_sidechain(self) -> bool:
        """A line of a sub-agent."""
        return self.flags & SIDECHAIN != 0

    @property
    def calls(self) -> list[str]:
        """The ids of the calls it makes."""
        return orjson.loads(self.call_ids) if self.call_ids else []

    @property
    def answers(self) -> list[str]:
        """The ids of the calls it answers."""
        return orjson.loads(self.result_ids) if self.result_ids else []
