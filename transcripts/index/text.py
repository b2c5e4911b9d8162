"""What of a record is searchable: the one place that decides it.

Invariants:
- A pure function of the record and of what is kept of it (its file's place, the tools that it answers): the same gives the
  same text, so an index entry can be compared with the truth and taken out again. Whoever changes what it returns raises
  schema.TEXT_VERSION.
- Not searchable: prompt snapshots, request bodies, base64, and the structured echo of a result beside it.
- At most TEXT_LIMIT characters a column are indexed; the bytes stay whole.
- Each searchable record has a scope, any other has none: tokens to filter by, which no text can contain (see scope.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from transcripts.files.entry import clean, load
from transcripts.index.scope import MARK, Place, scope
from transcripts.index.words import indexable

TEXT_LIMIT = 64 * 1024

SEARCHED_TYPES = frozenset({"user", "assistant", "system", "summary", "attachment", "custom-title", "ai-title", "agent-name"})
"""The types of the records that may hold searchable text."""

TITLE_FIELDS = {"custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName"}

Texts = tuple[str | None, str | None, str | None, str | None, str | None, str | None, str | None, str]
"""title, summary, prompt, reply, thinking, tool, result, scope: in the order of schema.SEARCH_COLUMNS, ready to be indexed."""

Passages = dict[str, str]
"""The searchable text of each column that has any, as it was written."""

_QUEUED = b"queued_command"  # the one attachment that a person wrote
_BASE64 = re.compile(r"[A-Za-z0-9+/]{512,}={0,2}")
_STRETCH = 256  # so much of a run of 512 lies between two places that are multiples of it
_PART_OF_BASE64 = re.compile(rf"[A-Za-z0-9+/]{{{_STRETCH}}}")


def texts(data: bytes, kind: str, place: Place, answered: Iterable[str] = ()) -> Texts | None:
    """What to index of a record, given by its bytes and type; None where it holds nothing to search.

    Never raises, whatever the shapes inside.
    """
    if not may_be_searched(data, kind):
        return None
    record = load(data)
    found = passages(record)
    if not found:
        return None
    title, summary, prompt, reply, thinking, tool, result = (
        indexable(found[name]) if name in found else None
        for name in ("title", "summary", "prompt", "reply", "thinking", "tool", "result")
    )
    return title, summary, prompt, reply, thinking, tool, result, scope(record, place, answered)


def may_be_searched(data: bytes, kind: str) -> bool:
    """Whether a look at the bytes of a record leaves room for text: prompt snapshots are large, and are not parsed."""
    return kind != "attachment" or _QUEUED in data


def passages(record: dict[str, Any]) -> Passages:
    """The searchable texts of a record, by column."""
    kind = record.get("type")
    parts: dict[str, list[object]] = {}
    if kind in TITLE_FIELDS:
        parts["title"] = [record.get(TITLE_FIELDS[kind])]
    elif kind == "summary":
        parts["summary"] = [record.get("summary")]
    elif kind == "system":
        parts["result"] = [record.get("content")]
    elif kind == "attachment":
        parts = _queued(record.get("attachment"))
    elif kind in ("user", "assistant") and isinstance(message := record.get("message"), dict):
        parts = _said(record, message.get("content"), kind)
    columns = ((name, _column(some)) for name, some in parts.items())
    return {name: text for name, text in columns if text}


def blocks(content: object) -> Iterator[dict[str, Any]]:
    """The content blocks of a message, those that are objects; a lone object counts as a list of one."""
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict):
            yield block


def strings(value: object) -> Iterator[str]:
    """All strings inside a value, in order, without recursion."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, list):
            pending.extend(reversed(item))


def _said(record: dict[str, Any], content: object, kind: str) -> dict[str, list[object]]:
    spoken = "reply" if kind == "assistant" else "prompt"
    if record.get("isCompactSummary") is True:
        spoken = "summary"
    elif record.get("isMeta") is True:  # put there by the client: no one typed it
        spoken = "result"
    parts: dict[str, list[object]] = {}
    for block in [content] if isinstance(content, str) else blocks(content):
        if isinstance(block, str):
            parts.setdefault(spoken, []).append(block)
            continue
        match block.get("type"):
            case "text":
                parts.setdefault(spoken, []).append(block.get("text"))
            case "thinking":
                parts.setdefault("thinking", []).append(block.get("thinking"))
            case "tool_use" | "server_tool_use":
                parts.setdefault("tool", []).extend([block.get("name"), *strings(block.get("input"))])
            case "tool_result":
                parts.setdefault("result", []).extend(_texts_of(block.get("content")))
    return parts


def _queued(attachment: object) -> dict[str, list[object]]:
    """A prompt that was typed while the model was at work; other commands of the queue are the machine's."""
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return {}
    typed = attachment.get("commandMode") in (None, "prompt")
    return {"prompt" if typed else "result": [*_texts_of(attachment.get("prompt"))]}


def _texts_of(content: object) -> Iterator[object]:
    if isinstance(content, str):
        yield content
    for block in blocks(content):
        if block.get("type") == "text":
            yield block.get("text")


def _column(parts: list[object]) -> str:
    """The texts of a column in one, cut, cleaned, without base64."""
    kept: list[str] = []
    room = TEXT_LIMIT
    for part in parts:
        if isinstance(part, str) and part and room > 0:
            kept.append(part[:room])
            room -= len(part)
    text = clean("\n".join(kept)).replace(MARK, " ")
    return _BASE64.sub(" ", text) if _may_hold_base64(text) else text


def _may_hold_base64(text: str) -> bool:
    """Whether a run is long enough, told by a look at every 256th character: a search at each would take most of the time."""
    return any(_PART_OF_BASE64.match(text, at) for at in range(0, len(text) - _STRETCH + 1, _STRETCH))
