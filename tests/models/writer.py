"""A writer of transcripts and the moves of an ordinary client, for the strategies in trees.py (format, sections 2 to 4)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from tests.models.lines import Json

START = datetime(2026, 11, 30, 8, tzinfo=UTC)
SESSION = "5e551010-0000-4000-8000-000000000001"
ABSENT = "00000000-0000-4000-8000-999999999999"  # a uuid that no line has
STEPS = [0, 1, 40, 1000, 1000, 1000, 4999, 5000, 5001, 60_000]  # milliseconds from one line to the next
HOOK = {"type": "hook_additional_context", "content": ["context of a hook"], "hookName": "UserPromptSubmit"}
SUBTYPES = ["informational", "local_command", "turn_duration", "api_error"]


def small_uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def stamp(milliseconds: int) -> str:
    moment = START + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thinking() -> Json:
    return {"type": "thinking", "thinking": "hm", "signature": "s"}


@dataclass
class Writer:
    """Writes lines as a client does. `tip` is the line that the next one hangs on."""

    draw: st.DrawFn
    lines: list[Json] = field(default_factory=list)
    parents: dict[str, str | None] = field(default_factory=dict)
    tip: str | None = None
    clock: int = 0
    ids: int = 0

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == one_in

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}_{self.ids}"

    def loose(self, kind: str, **fields: object) -> None:
        """A line about the session."""
        self.lines.append({"type": kind, "sessionId": SESSION, **fields})

    def add(self, kind: str, parent: str | None, **fields: object) -> str:
        """A chain line; it does not become the tip."""
        uuid = small_uuid(len(self.parents) + 1)
        self.parents[uuid] = parent
        self.clock += self.draw(st.sampled_from(STEPS))
        early = 10 if kind == "attachment" and self.chance(4) else 0  # some attachments are older than their prompt
        line: Json = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": uuid}
        line |= {"timestamp": stamp(self.clock - early), "sessionId": SESSION, "cwd": "/home/dev/shop"}
        line |= {"version": "2.1.332", "gitBranch": "main", "userType": "external"}
        self.lines.append(line | fields)
        return uuid

    def user(self, parent: str | None, content: object, **fields: object) -> str:
        return self.add("user", parent, message={"role": "user", "content": content}, **fields)

    def assistant(self, parent: str | None, message_id: str | None, *blocks: Json, **fields: object) -> str:
        message: Json = {"role": "assistant", "type": "message", "content": list(blocks), "usage": {"output_tokens": 7}}
        if message_id is not None:
            message["id"] = message_id
        return self.add("assistant", parent, message=message, **fields)

    def system(self, parent: str | None, subtype: str, **fields: object) -> str:
        return self.add("system", parent, subtype=subtype, content="note", **fields)

    def side(self, parent: str | None) -> str:
        """An attachment (mostly), a system line or a meta user line."""
        kind = self.number(1, 5)
        if kind <= 3:
            return self.add("attachment", parent, attachment=HOOK)
        if kind == 4:
            return self.system(parent, self.draw(st.sampled_from(SUBTYPES)))
        return self.user(parent, "a reminder", isMeta=True)

    def chain(self) -> list[str]:
        """The uuids from the root to the tip."""
        found: list[str] = []
        current = self.tip
        while current is not None and current in self.parents:
            found.append(current)
            current = self.parents[current]
        return found[::-1]


# Moves of an ordinary client


def prompt(writer: Writer) -> None:
    writer.tip = writer.user(writer.tip, "a prompt" if writer.chance(2) else [text("a prompt")])
    for _ in range(writer.number(0, 2)):
        writer.tip = writer.side(writer.tip)


def reply(writer: Writer) -> None:
    message_id = writer.new_id("msg") if not writer.chance(12) else None
    if writer.chance(3):
        writer.tip = writer.assistant(writer.tip, message_id, thinking())
    writer.tip = writer.assistant(writer.tip, message_id, text("an answer"))
    if writer.chance(3):
        writer.tip = writer.side(writer.tip)


def odd_reply(writer: Writer) -> None:
    """A reply that is dropped or replaced when it is sent."""
    blocks = writer.draw(st.sampled_from([[text(" \n")], [thinking()], [], [text("")]]))
    writer.tip = writer.assistant(writer.tip, writer.new_id("msg"), *blocks)


def result(writer: Writer, parent: str, call: str, asker: str) -> str:
    content = [{"type": "tool_result", "tool_use_id": call, "content": "done"}]
    source = {} if writer.chance(4) else {"sourceToolAssistantUUID": asker}
    return writer.user(parent, content, toolUseResult="done", **source)


def call_lines(writer: Writer, message_id: str | None) -> list[tuple[str, str]]:
    """The lines of parallel calls, one a call or all on one. Call and line of those without a result so far."""
    blocks = [{"type": "tool_use", "id": writer.new_id("toolu"), "name": "Read"} for _ in range(writer.number(1, 4))]
    if writer.chance(3):
        line = writer.tip = writer.assistant(writer.tip, message_id, text("several at once"), *blocks)
        return [(block["id"], line) for block in blocks]
    found: list[tuple[str, str]] = []
    for block in blocks:
        line = writer.tip = writer.assistant(writer.tip, message_id, block)
        if writer.chance(6):
            writer.side(line)
        if writer.chance(6):  # a result that comes before the next call
            writer.tip = result(writer, line, block["id"], line)
        else:
            found.append((block["id"], line))
    return found


def parallel_calls(writer: Writer) -> None:
    message_id = writer.new_id("msg") if not writer.chance(12) else None
    if writer.chance(4):
        writer.tip = writer.assistant(writer.tip, message_id, thinking())
    if writer.chance(3):
        writer.tip = writer.assistant(writer.tip, message_id, text("let me look"))
    chained = writer.chance(8)  # older writers hang each result on the one before
    ends: list[str] = []
    for call, line in writer.draw(st.permutations(call_lines(writer, message_id))):
        if writer.chance(10):
            continue  # no result was recorded
        end = result(writer, str(writer.tip) if chained else line, call, line)
        for _ in range(writer.number(0, 2) if writer.chance(3) else 0):
            end = writer.side(end)
        ends.append(end)
        writer.tip = end if chained else writer.tip
    if ends and not chained:
        writer.tip = ends[-1] if not writer.chance(3) else writer.draw(st.sampled_from(ends))


def fork(writer: Writer) -> None:
    """Go on from an earlier line, or start anew, as after an edited prompt."""
    writer.tip = writer.draw(st.sampled_from([None, *writer.parents]))
    prompt(writer)
    reply(writer)


def compact(writer: Writer) -> None:
    kept = writer.chain()[-writer.number(1, 4) :]
    kind = writer.draw(st.sampled_from(["plain", "segment", "messages", "both"]))
    metadata: Json = {"trigger": "manual", "preTokens": 100}
    boundary = writer.system(None, "compact_boundary", logicalParentUuid=writer.tip, compactMetadata=metadata)
    writer.tip = boundary
    if writer.chance(3):
        writer.tip = writer.side(writer.tip)
    writer.tip = writer.user(writer.tip, "This session is being continued", isCompactSummary=True)
    if not kept or kind == "plain":
        return
    anchor = boundary if writer.chance(4) else writer.tip
    if kind != "messages":
        metadata["preservedSegment"] = {"headUuid": kept[0], "anchorUuid": anchor, "tailUuid": kept[-1]}
    if kind != "segment":
        listed = [uuid for uuid in kept if not writer.chance(6)]
        metadata["preservedMessages"] = {"anchorUuid": anchor, "uuids": listed, "allUuids": kept}


def snip(writer: Writer) -> None:
    named = writer.draw(st.lists(st.sampled_from([ABSENT, *writer.parents]), max_size=4, unique=True))
    writer.tip = writer.system(writer.tip, "snip_boundary", snipMetadata={"removedUuids": named})


def pointer(writer: Writer) -> None:
    target = writer.draw(st.sampled_from([None, ABSENT, *writer.parents])) if writer.chance(3) else writer.tip
    fields: Json = {} if target is None else {"leafUuid": target}
    if writer.chance(4):
        fields["explicit"] = True
    writer.loose("last-prompt", lastPrompt="a prompt", **fields)


def progress(writer: Writer) -> None:
    for _ in range(writer.number(1, 3)):
        writer.tip = writer.add("progress", writer.tip, data={"type": "hook_progress"})


def sub_agent(writer: Writer) -> None:
    """An older client wrote a sub-agent's lines into the same file, below the main chain or apart from it."""
    parent = writer.tip if writer.chance(2) else None
    for _ in range(writer.number(1, 3)):
        parent = writer.user(parent, "a task", isSidechain=True, agentId="a1")
        parent = writer.assistant(parent, writer.new_id("msg"), text("task done"), isSidechain=True, agentId="a1")


def gap(writer: Writer) -> None:
    """Go on below a line that is missing from the file."""
    writer.tip = writer.user(ABSENT, "after a gap")


def interrupt(writer: Writer) -> None:
    writer.tip = writer.user(writer.tip, [text("[Request interrupted by user]")])


def about_session(writer: Writer) -> None:
    kind = writer.draw(st.sampled_from(["custom-title", "summary", "queue-operation", "mode"]))
    writer.loose(kind, **({"summary": "words", "leafUuid": writer.tip or ABSENT} if kind == "summary" else {}))


Move = Callable[[Writer], None]
MOVES: list[Move] = [
    *[prompt] * 3,
    *[reply] * 4,
    *[parallel_calls] * 5,
    *[fork] * 2,
    *[compact] * 2,
    *[pointer] * 3,
    *[odd_reply, snip, progress, sub_agent, gap, interrupt, about_session],
]
