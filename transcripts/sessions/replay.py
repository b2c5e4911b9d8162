"""A chain into the messages that are sent to the model (FORMAT.md 3.9).

Invariants:
- The result is valid for the Messages API: every call is answered in the message behind it, no result stands without its
  call, and user and assistant take turns once messages of role system are left out.
- What the client makes up is made up here too, with its words: missing results, results of interrupted calls, "(no content)",
  the closing answer. All else is the content of the lines, block by block; only lone surrogates are replaced.

A turn is an assistant message and all that the user side says behind it, up to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from transcripts.files.entry import clean
from transcripts.index.text import blocks
from transcripts.sessions.node import ASSISTANT, ATTACHMENT, BOUNDARY, EMPTY_CONTENT, LOCAL_COMMAND, USER, Node

NO_CONTENT = "(no content)"
NO_RESPONSE = "No response requested."
MISSING = "[Tool result missing due to internal error]"
INTERRUPTED = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)

Line = tuple[Node, dict[str, Any]]
"""A line of the chain, and its record."""


@dataclass
class Part:
    """A content block that is sent: its role, the uuid of its line (several joined by +; None: made up), and the block."""

    role: str
    uuid: str | None
    block: dict[str, Any]

    @property
    def kind(self) -> str:
        """The type of the block."""
        return str(self.block.get("type"))

    @property
    def call(self) -> str:
        """The id of the call that it makes or answers, else ''."""
        found = self.block.get({"tool_use": "id", "tool_result": "tool_use_id"}.get(self.kind, ""))
        return found if isinstance(found, str) else ""


@dataclass
class _Turn:
    assistant: list[Part] = field(default_factory=list)
    user: list[Part] = field(default_factory=list)
    heard_user: bool = False
    reminders: list[Part] = field(default_factory=list)  # attachments of role system
    mentions: list[Part] = field(default_factory=list)  # attachments of role user


def messages(sent: Sequence[Part], extra: Sequence[dict[str, Any]], system_as_user: bool) -> list[dict[str, Any]]:
    """Parts put together to messages, role and content each, with the `extra` ones behind."""
    found: list[dict[str, Any]] = []
    for part in sent:
        if part.role == "system" and system_as_user:
            _append(found, "user", [_text(f"<system-reminder>\n{part.block['text']}\n</system-reminder>")])
        else:
            _append(found, part.role, [part.block])
    for message in extra:
        content = message.get("content")
        _append(found, str(message.get("role")), [_text(content)] if isinstance(content, str) else list(blocks(content)))
    return found


def parts(lines: Sequence[Line]) -> list[Part]:
    """All parts in order. `lines` are those of the chain after the drops, with those that are only hidden."""
    start = max((at + 1 for at, (node, _record) in enumerate(lines) if node.flags & BOUNDARY), default=0)
    lines = lines[start:]
    turns = _turns(lines)
    found: list[Part] = []
    answered: set[str] = set()
    open_calls = False
    for turn in turns:
        open_calls = _settle(turn, answered, turn is turns[-1])
        results = [part for part in turn.user if part.kind == "tool_result"]
        said = [part for part in turn.user if part.kind != "tool_result"]
        found += [*turn.assistant, *results, *turn.mentions, *said]
        found += _reminder(turn.reminders, any(part.role == "user" for part in found))
    talk = [node for node, _record in lines if node.is_turn]
    if open_calls or (talk and talk[-1].flags & USER) or (found and not talk):
        found.append(Part("assistant", None, _text(NO_RESPONSE)))
    return found


def _append(sent: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    """Add blocks, to the last message where it has the same role: calls stay the last of an assistant message."""
    spoken = next((message for message in reversed(sent) if role == "system" or message["role"] != "system"), None)
    if spoken is None or spoken["role"] != role:
        spoken = {"role": role, "content": []}
        sent.append(spoken)
    spoken["content"] += content
    if role == "assistant":
        spoken["content"].sort(key=lambda block: block.get("type") == "tool_use")


# -- turns -----------------------------------------------------------------------------------------------------------------


def _turns(lines: Sequence[Line]) -> list[_Turn]:
    """A further line of a message.id joins the message of the first, across results but not across what a user says."""
    turns = [_Turn()]
    replies: dict[str, _Turn] = {}  # of the replies since a user last spoke
    for node, record in lines:
        turn = turns[-1]
        if node.flags & ASSISTANT:
            joined = replies.get(node.message_id or "")
            if joined is None:
                turns.append(joined := _Turn())
            if node.message_id is not None:
                replies[node.message_id] = joined
            joined.assistant += _parts("assistant", node, record) or (
                [Part("assistant", None, _text(NO_CONTENT))] if node.flags & EMPTY_CONTENT else []
            )
            joined.assistant.sort(key=lambda part: part.kind == "tool_use")
        elif node.flags & ATTACHMENT:
            _attach(turn, node, record)
        elif node.flags & (USER | LOCAL_COMMAND):
            if not node.is_result:
                replies.clear()
            _hear(
                turn,
                _parts("user", node, record)
                if node.flags & USER
                else [Part("user", node.uuid, _text(clean(str(record.get("content", "")))))],
            )
    return turns


def _parts(role: str, node: Node, record: dict[str, Any]) -> list[Part]:
    content = record["message"].get("content") if isinstance(record.get("message"), dict) else None
    if isinstance(content, str):
        return [Part(role, node.uuid, _text(clean(content)))]
    return [Part(role, node.uuid, _storable(block)) for block in blocks(content)]


def _hear(turn: _Turn, said: list[Part]) -> None:
    """Results first, the rest in order; where text meets text, a newline is added to the earlier one."""
    if turn.user and said and turn.user[-1].kind == said[0].kind == "text":
        turn.user[-1].block = _text(f"{turn.user[-1].block.get('text', '')}\n", turn.user[-1].block)
    turn.user = sorted([*turn.user, *said], key=lambda part: part.kind != "tool_result")
    turn.heard_user = True


def _attach(turn: _Turn, node: Node, record: dict[str, Any]) -> None:
    text = _attachment_text(record)
    if text is not None:
        is_mention = record.get("renderedRole") == "user"
        (turn.mentions if is_mention else turn.reminders).append(Part("user" if is_mention else "system", node.uuid, _text(text)))


def _attachment_text(record: dict[str, Any]) -> str | None:
    """What an attachment says to the model; None when it says nothing."""
    rendered = record.get("rendered")
    if isinstance(rendered, list):
        texts = [item["content"] for item in blocks(rendered) if isinstance(item.get("content"), str)]
        return clean("\n\n".join(texts)) if texts else None
    attachment = record.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") != "hook_additional_context":
        return None
    content = attachment.get("content")
    texts = [item for item in content if isinstance(item, str)] if isinstance(content, list) else [str(content)]
    return clean(f"{attachment.get('hookName')} hook additional context: " + "\n".join(texts))


# -- results and reminders ---------------------------------------------------------------------------------------------------


def _settle(turn: _Turn, answered: set[str], is_last: bool) -> bool:
    """Keep the first result of each call of the turn, make up the others; whether calls of the last turn were open."""
    calls = list(dict.fromkeys(part.call for part in turn.assistant if part.kind == "tool_use"))
    results: list[Part] = []
    for part in turn.user:
        if part.kind == "tool_result" and part.call in calls and part.call not in answered:
            answered.add(part.call)
            results.append(part)
    said = [part for part in turn.user if part.kind != "tool_result"]
    given = {part.call for part in results}
    missing = [call for call in calls if call not in given]
    made_up = [Part("user", None, _error(call, INTERRUPTED if is_last else MISSING)) for call in missing]
    results = [*results, *made_up] if is_last else [*made_up, *results]
    if turn.heard_user and not results and not said:
        said = [Part("user", None, _text(NO_CONTENT))]
    turn.user = [*results, *said]
    return is_last and bool(missing)


def _reminder(reminders: list[Part], after_user: bool) -> Iterator[Part]:
    """The attachments of a turn as one part; with no user message before them they are user text."""
    if reminders:
        uuid = "+".join(str(part.uuid) for part in reminders)
        text = "\n\n".join(part.block["text"] for part in reminders)
        if after_user:
            yield Part("system", uuid, _text(text))
        else:
            yield Part("user", uuid, _text(f"<system-reminder>\n{text}\n</system-reminder>"))


def _text(text: str, block: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**(block or {"type": "text"}), "text": text}


def _error(call: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": True}


def _storable(block: dict[str, Any]) -> dict[str, Any]:
    """The block with its lone surrogates replaced."""
    try:
        orjson.dumps(block)
    except TypeError:
        return {clean(key): _without_surrogates(value) for key, value in block.items()}
    return block


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _without_surrogates(item) for key, item in value.items()}
    return value
