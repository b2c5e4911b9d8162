"""What of a record is searchable: the one place that decides it.

Invariants:
- A pure function of the record: the same bytes give the same text, so an index entry can be compared with the truth and
  taken out again. Whoever changes what it returns raises schema.TEXT_VERSION.
- Not searchable: prompt snapshots, request bodies, base64, and the structured echo of a result beside it.
- At most TEXT_LIMIT characters a column are indexed; the bytes stay whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from transcripts.files.entry import clean

TEXT_LIMIT = 64 * 1024

SEARCHED_TYPES = frozenset({"user", "assistant", "system", "summary"})

Texts = tuple[str | None, str | None, str | None, str | None, str | None]
"""prompt, reply, thinking, tool, result: in the order of schema.SEARCH_COLUMNS."""

_CJK = re.compile("([\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{512,}={0,2}")


def texts(record: dict[str, Any]) -> Texts:
    """The searchable texts of a record; None for a column that has nothing. Never raises, whatever the shapes inside."""
    kind = record.get("type")
    if kind == "summary":
        return _column(record.get("summary")), None, None, None, None
    if kind == "system":
        return None, None, None, None, _column(record.get("content"))
    message = record.get("message")
    if kind not in SEARCHED_TYPES or not isinstance(message, dict):
        return None, None, None, None, None
    content = message.get("content")
    spoken: list[object] = []
    thinking: list[object] = []
    tools: list[object] = []
    results: list[object] = []
    for block in [content] if isinstance(content, str) else blocks(content):
        if isinstance(block, str):
            spoken.append(block)
            continue
        match block.get("type"):
            case "text":
                spoken.append(block.get("text"))
            case "thinking":
                thinking.append(block.get("thinking"))
            case "tool_use" | "server_tool_use":
                tools += [block.get("name"), *strings(block.get("input"))]
            case "tool_result":
                results += _result(block.get("content"))
    said = _column(*spoken)
    prompt, reply = (said, None) if kind == "user" else (None, said)
    return prompt, reply, _column(*thinking), _column(*tools), _column(*results)


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


def _result(content: object) -> Iterator[object]:
    if isinstance(content, str):
        yield content
    for block in blocks(content):
        if block.get("type") == "text":
            yield block.get("text")


def _column(*parts: object) -> str | None:
    """Join the texts of a column, cut, cleaned, without base64, CJK characters each a word of its own."""
    kept: list[str] = []
    room = TEXT_LIMIT
    for part in parts:
        if isinstance(part, str) and part and room > 0:
            kept.append(part[:room])
            room -= len(part)
    if not kept:
        return None
    text = clean("\n".join(kept))
    if len(text) > 512:
        text = _BASE64.sub(" ", text)
    return text if text.isascii() else _CJK.sub(r" \1 ", text)
