"""A record as a person reads it: who speaks, and the parts of what is said.

Invariants:
- Whatever shapes a record holds, nothing raises: what is not understood is named, not shown.
- The texts are as they stand in the record; who prints them makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_RESULT_LINES = 5
_RESULT_CHARACTERS = 500
_TARGETS = ("file_path", "notebook_path", "command", "pattern", "path", "url", "query", "skill", "description", "prompt")
_GIST = ("rendered", "content", "text", "prompt", "displayPath", "filename", "path", "reason", "newDate", "date", "command")


class Part(NamedTuple):
    """A piece of what is said. `kind`: text, thinking, call, result, error (a failed result) or note (said by the client)."""

    kind: str
    text: str


def role(record: dict[str, Any]) -> str:
    """Who speaks, in at most ten characters."""
    kind = record.get("type")
    if kind != "user":
        return kind[:10] if isinstance(kind, str) else "?"
    if record.get("isCompactSummary") is True:
        return "summary"
    blocks = list(_blocks(record))
    if blocks and all(block.get("type") == "tool_result" for block in blocks):
        return "result"
    return "meta" if record.get("isMeta") is True else "user"


def parts(record: dict[str, Any], calls: dict[str, str]) -> Iterator[Part]:
    """What a record says, in order; `calls` keeps the names of tool calls, for the results that come later."""
    kind = record.get("type")
    if kind == "attachment":
        yield Part("note", _attachment(record.get("attachment")))
    elif kind == "system":
        yield Part("note", _system(record))
    for block in _blocks(record):
        part = _part(block, calls)
        if part.text.strip():
            yield part


def _blocks(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            yield {"type": "text", "text": block}
        elif isinstance(block, dict):
            yield block


def _part(block: dict[str, Any], calls: dict[str, str]) -> Part:
    kind = block.get("type")
    if kind == "text":
        return Part("text", _string(block.get("text")))
    if kind == "thinking":
        return Part("thinking", _string(block.get("thinking")))
    if kind in ("tool_use", "server_tool_use"):
        name = _string(block.get("name")) or "?"
        calls[_string(block.get("id"))] = name
        return Part("call", f"{name}({_target(block.get('input'))})")
    if kind == "tool_result":
        name = calls.get(_string(block.get("tool_use_id")), "")
        text = _shortened(_result(block.get("content"))) or "(no output)"
        return Part("error" if block.get("is_error") is True else "result", f"{name}: {text}" if name else text)
    return Part("note", f"({kind})" if isinstance(kind, str) else "(unknown block)")


def _target(given: object) -> str:
    """What a call is about: a file, a command, a pattern; else the first text among its arguments."""
    if not isinstance(given, dict):
        return ""
    values = [given.get(name) for name in _TARGETS] + list(given.values())
    text = next((value for value in values if isinstance(value, str) and value.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"


def _result(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        _string(block.get("text")) if block.get("type") == "text" else f"({_string(block.get('type'))})"
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict)
    )


def _shortened(text: str) -> str:
    lines = text.strip("\n").split("\n")
    kept = "\n".join(lines[:_RESULT_LINES])[:_RESULT_CHARACTERS]
    left = text.strip("\n")[len(kept) :]
    if not left.strip():
        return kept
    more = left.strip("\n").count("\n") + 1
    return f"{kept}…" if len(lines) <= _RESULT_LINES else f"{kept}\n… {more} more {'line' if more == 1 else 'lines'}"


def _attachment(attachment: object) -> str:
    if not isinstance(attachment, dict):
        return "(unknown attachment)"
    name = _string(attachment.get("type")) or "?"
    return f"{name}  {_gist(attachment)}".rstrip()


def _system(record: dict[str, Any]) -> str:
    name = _string(record.get("subtype")) or "system"
    return f"{name}  {_gist(record)}".rstrip()


def _gist(record: dict[str, Any]) -> str:
    text = next((value for name in _GIST if isinstance(value := record.get(name), str) and value.strip()), "")
    line = " ".join(text[:1000].split())
    return line if len(line) <= 100 else line[:99] + "…"


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
