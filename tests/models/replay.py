"""Model of what is sent to the model after a resume (format, section 3.9): drops, messages, results, attachments, end.

Input is the chain of lines before the drops. The lines behind the last boundary of the chain are cut into turns: an
assistant message and all that follows it up to the next one.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.models.lines import BLANKS, Json, Line, block_id, mapping

NO_CONTENT = "(no content)"
NO_RESPONSE = "No response requested."
MISSING = "[Tool result missing due to internal error]"
INTERRUPTED = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass
class Part:
    """One part of a message. `uuid` names its line, or its lines joined by +; None for a part made up."""

    role: str
    uuid: str | None
    kind: str
    text: str
    call: str | None = None  # the call that a tool_use holds or a tool_result answers
    is_error: bool = False

    @property
    def is_text(self) -> bool:
        return self.kind.startswith("text")

    @property
    def is_call(self) -> bool:
        return self.kind.startswith("tool_use")

    @property
    def is_result(self) -> bool:
        return self.kind.startswith("tool_result")


@dataclass
class Turn:
    """An assistant message (none before the first one) and what the user side says after it."""

    assistant: list[Part] = field(default_factory=list)
    user: list[Part] = field(default_factory=list)
    has_user_line: bool = False
    system_texts: list[Part] = field(default_factory=list)
    user_texts: list[Part] = field(default_factory=list)


# Drops


def is_empty_assistant(line: Line) -> bool:
    return line.type == "assistant" and line.content == []


def is_thinking_only(line: Line) -> bool:
    blocks = line.blocks
    return bool(blocks) and all(block.get("type") in ("thinking", "redacted_thinking") for block in blocks)


def is_blank(line: Line) -> bool:
    """Whether an assistant line holds nothing but whitespace."""
    blocks = line.blocks
    return bool(blocks) and all(block.get("type") == "text" and not str(block.get("text", "")).strip(BLANKS) for block in blocks)


def kept(chain: list[Line]) -> list[Line]:
    """The chain without the assistant lines that are dropped."""
    assistants = [line for line in chain if line.type == "assistant"]
    answered = {call for line in chain for call in line.answered}
    speaking = {line.message_id for line in assistants if not is_thinking_only(line)}
    last = assistants[-1] if assistants else None

    def dropped(line: Line) -> bool:
        if line.type != "assistant":
            return False
        in_last = line is last or (last is not None and line.message_id is not None and line.message_id == last.message_id)
        if line.calls and answered.isdisjoint(line.calls) and not in_last:
            return True
        return is_blank(line) or (is_thinking_only(line) and (line.message_id is None or line.message_id not in speaking))

    return [line for line in chain if not dropped(line)]


# Parts of lines


def clean(text: str) -> str:
    return SURROGATES.sub("\ufffd", text)


def block_part(role: str, uuid: str, block: Json) -> Part:
    kind = str(block.get("type"))
    if kind == "tool_use":
        call = block_id(block, "id")
        return Part(role, uuid, f"tool_use {call}", "", call)
    if kind == "tool_result":
        call = block_id(block, "tool_use_id")
        return Part(role, uuid, f"tool_result {call}", json.dumps(block.get("content")), call, block.get("is_error") is True)
    return Part(role, uuid, kind, clean(str(block.get("text", ""))) if kind == "text" else "")


def line_parts(line: Line) -> list[Part]:
    return [block_part(line.type, line.uuid, block) for block in line.blocks]


def attachment_text(line: Line) -> str | None:
    """The text of an attachment; None when it sends nothing."""
    rendered = line.raw.get("rendered")
    if isinstance(rendered, list):
        texts = [item["content"] for item in rendered if isinstance(item, dict) and isinstance(item.get("content"), str)]
        return clean("\n\n".join(texts)) if texts else None
    attachment = mapping(line.raw.get("attachment"))
    if attachment.get("type") != "hook_additional_context":
        return None
    content: Any = attachment.get("content")
    texts = [item for item in content if isinstance(item, str)] if isinstance(content, list) else [str(content)]
    return clean(f"{attachment.get('hookName')} hook additional context: " + "\n".join(texts))


# Turns


def add_user_parts(turn: Turn, parts: list[Part]) -> None:
    """Results first, the rest in order; where text meets text a newline is added to the earlier one."""
    if turn.user and parts and turn.user[-1].is_text and parts[0].is_text:
        turn.user[-1].text += "\n"
    together = turn.user + parts
    turn.user = [part for part in together if part.is_result] + [part for part in together if not part.is_result]
    turn.has_user_line = True


def add_assistant_line(turn: Turn, line: Line) -> None:
    """Within an assistant message the calls come last."""
    if is_empty_assistant(line):
        turn.assistant.append(Part("assistant", None, "text no content", NO_CONTENT))
    together = turn.assistant + line_parts(line)
    turn.assistant = [part for part in together if not part.is_call] + [part for part in together if part.is_call]


def add_attachment(turn: Turn, line: Line) -> None:
    text = attachment_text(line)
    if text is not None and line.raw.get("renderedRole") == "user":
        turn.user_texts.append(Part("user", line.uuid, "text", text))
    elif text is not None:
        turn.system_texts.append(Part("system", line.uuid, "text", text))


def cut_into_turns(lines: list[Line]) -> list[Turn]:
    """A further line of a message.id joins the message of the first, across results but not across prompts."""
    turns = [Turn()]
    open_replies: dict[str, Turn] = {}  # message.id -> its turn, of the replies since the last prompt
    for line in lines:
        if line.type == "assistant":
            turn = open_replies.get(line.message_id or "")
            if turn is None:
                turn = Turn()
                turns.append(turn)
            if line.message_id is not None:
                open_replies[line.message_id] = turn
            add_assistant_line(turn, line)
        elif line.type == "user":
            add_user_parts(turns[-1], line_parts(line))
            if not line.is_result:
                open_replies.clear()
        elif line.type == "attachment":
            add_attachment(turns[-1], line)
        elif line.raw.get("subtype") == "local_command":
            add_user_parts(turns[-1], [Part("user", line.uuid, "text", clean(str(line.raw.get("content", ""))))])
            open_replies.clear()
    return turns


def made_up_result(call: str, why: str, text: str) -> Part:
    return Part("user", None, f"tool_result {call} {why}", json.dumps(text), call, True)


def settle_results(turn: Turn, answered: set[str], is_last: bool) -> bool:
    """Keep the first result of each call of the assistant message before it and make up the others. True when calls of
    the last assistant message stay open."""
    calls = [part.call for part in turn.assistant if part.is_call and part.call is not None]
    results: list[Part] = []
    for part in turn.user:
        if part.is_result and part.call in calls and part.call not in answered:
            results.append(part)
            answered.add(str(part.call))
    others = [part for part in turn.user if not part.is_result]
    here = {part.call for part in results}
    missing = [call for call in dict.fromkeys(calls) if call not in here]
    if is_last:
        results += [made_up_result(call, "interrupted", INTERRUPTED) for call in missing]
    else:
        results = [made_up_result(call, "missing", MISSING) for call in missing] + results
    if turn.has_user_line and not results and not others:
        others = [Part("user", None, "text no content", NO_CONTENT)]
    turn.user = results + others
    return is_last and bool(missing)


def system_part(texts: list[Part], after_user: bool) -> list[Part]:
    """The attachment texts of a turn as one part; with no user message before them they are user text."""
    if not texts:
        return []
    uuid = "+".join(str(part.uuid) for part in texts)
    text = "\n\n".join(part.text for part in texts)
    if after_user:
        return [Part("system", uuid, "text", text)]
    return [Part("user", uuid, "text", f"<system-reminder>\n{text}\n</system-reminder>")]


def parts(chain: list[Line]) -> list[Part]:
    """All parts that are sent, in order."""
    lines = kept(chain)
    lines = lines[max((number for number, line in enumerate(lines) if line.is_boundary), default=-1) + 1 :]
    turns = cut_into_turns(lines)
    found: list[Part] = []
    answered: set[str] = set()
    interrupted = False
    for turn in turns:
        interrupted = settle_results(turn, answered, is_last=turn is turns[-1])
        results = [part for part in turn.user if part.is_result]
        texts = [part for part in turn.user if not part.is_result]
        found += turn.assistant + results + turn.user_texts + texts
        found += system_part(turn.system_texts, any(part.role == "user" for part in found))
    talk = [line for line in lines if line.is_turn]
    if interrupted or (talk and talk[-1].type == "user") or (not talk and found):
        found.append(Part("assistant", None, "text no response", NO_RESPONSE))
    return found
