"""Generated transcripts: what a client could have written, and what could have happened to it since.

Uuids, ids and times are drawn from a few values, so that parents are missing, late, repeated and circular, responses span
lines and files, and summaries name messages of other files.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.builders import Json, call, dumps, result, session_id, stamp, text, uuid

UUIDS = st.one_of(st.integers(1, 9).map(uuid), st.integers(1, 4).map(uuid))
NAMES = st.one_of(UUIDS, st.none(), UUIDS, st.sampled_from(["", "absent", 7]))  # what a parentUuid may be
IDS = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
WORDS = st.sampled_from(["kettle", "größe", "東京の天気", "a\x00b", "\ud83d alone", "👩‍💻", "x" * 200, "", " \n", "Caveat"])
TIMES = st.one_of(st.integers(0, 5).map(stamp), st.sampled_from([None, 12345, "no time", "2026-03-01"]))

BLOCKS = st.one_of(
    WORDS.map(text),
    st.builds(lambda key, words: call(key, "Bash", command=words), IDS, WORDS),
    st.builds(lambda key, words, failed: result(key, words, is_error=failed), IDS, WORDS, st.booleans()),
    WORDS.map(lambda words: {"type": "thinking", "thinking": words, "signature": "s"}),
    st.sampled_from([None, 3, {"type": 4}, {}, {"type": "tool_use", "id": 1}]),
)
CONTENTS: st.SearchStrategy[object] = st.one_of(WORDS, st.lists(BLOCKS, max_size=3), st.sampled_from([None, {}, 5]))
USAGE = st.one_of(
    st.none(),
    st.builds(
        lambda tokens, split: {"input_tokens": 2, "output_tokens": tokens, "cache_creation": split},
        st.integers(0, 3),
        st.sampled_from(
            [None, {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}, {"ephemeral_5m_input_tokens": -1}]
        ),
    ),
)


@st.composite
def spoken(draw: st.DrawFn, session: str) -> Json:
    role = draw(st.sampled_from(["user", "assistant"]))
    message: object = draw(
        st.one_of(
            st.fixed_dictionaries(
                {"role": st.just(role), "content": CONTENTS},
                optional={
                    "id": st.sampled_from(["msg_1", "msg_2", ""]),
                    "usage": USAGE,
                    "model": st.sampled_from(["claude-opus-5", "<synthetic>"]),
                    "stop_reason": st.sampled_from([None, "end_turn"]),
                },
            ),
            st.sampled_from(["a string", None, {"0": "o"}]),
        )
    )
    return draw(chained(session, role)) | {"message": message}


@st.composite
def chained(draw: st.DrawFn, session: str, kind: str) -> Json:
    record: Json = {"type": kind, "uuid": draw(UUIDS), "parentUuid": draw(NAMES), "sessionId": session, "timestamp": draw(TIMES)}
    if draw(st.integers(0, 3)) == 0:
        record |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "isSidechain": st.just(True),
                    "isMeta": st.just(True),
                    "cwd": st.sampled_from(["/home/dev/shop", "/home/dev/kettle"]),
                    "gitBranch": st.sampled_from(["main", "topic"]),
                    "requestId": st.sampled_from(["req_1", "req_2"]),
                    "sourceToolAssistantUUID": UUIDS,
                    "forkedFrom": st.builds(lambda at: {"messageUuid": at}, UUIDS),
                },
            )
        )
    return record


def _boundary(record: Json, preserved: Json) -> Json:
    return record | {"subtype": "compact_boundary", "compactMetadata": preserved, "logicalParentUuid": uuid(2)}


def records(session: str) -> st.SearchStrategy[Json]:
    """One record."""
    about: list[st.SearchStrategy[Json]] = [
        st.builds(lambda words: {"type": "custom-title", "customTitle": words}, WORDS),
        st.builds(lambda words: {"type": "ai-title", "aiTitle": words}, WORDS),
        st.builds(lambda words: {"type": "tag", "tag": words}, WORDS),
        st.builds(lambda words, leaf: {"type": "summary", "summary": words, "leafUuid": leaf}, WORDS, NAMES),
        st.builds(
            lambda leaf, sure: {"type": "last-prompt", "leafUuid": leaf, "explicit": sure, "lastPrompt": "p"},
            NAMES,
            st.booleans(),
        ),
        st.builds(lambda owner: {"type": "file-history-snapshot", "messageId": owner, "snapshot": {}}, UUIDS),
        st.builds(lambda mode: {"type": "mode", "mode": mode}, WORDS),
        st.sampled_from([{"type": "new-kind", "uuid": uuid(3)}, {"type": 5}, {}, {"parentUuid": uuid(1)}]),
    ]
    return st.one_of(
        spoken(session),
        chained(session, "progress"),
        spoken(session),
        chained(session, "attachment"),
        chained(session, "progress"),
        st.builds(
            _boundary,
            chained(session, "system"),
            st.sampled_from(
                [{}, {"preservedSegment": {"headUuid": uuid(1), "anchorUuid": uuid(2), "tailUuid": uuid(3)}}, {"trigger": 3}]
            ),
        ),
        *(kind.map(lambda record: record | {"sessionId": session}) for kind in about),
    )


def lines(session: str) -> st.SearchStrategy[bytes]:
    """One physical line without its end, whole or damaged."""
    whole = records(session).map(dumps)
    return st.one_of(
        whole,
        whole,
        whole,
        whole,
        st.builds(lambda one, other: one + other, whole, whole),
        st.builds(lambda one, cut, other: one[: max(1, len(one) * cut // 9)] + other, whole, st.integers(1, 8), whole),
        st.builds(lambda one, tail: one + tail, whole, st.sampled_from([b"\r", b"  ", b"garbage", b"\xff", b"\x00\x00"])),
        st.builds(lambda head, one: head + one, st.sampled_from([b"\xef\xbb\xbf", b" ", b"\x00" * 9, b"garbage"]), whole),
        st.builds(lambda one, at: one[:at] + b"\xff" + one[at:], whole, st.integers(2, 60)),
        st.sampled_from([b"", b"[1,2]", b'"text"', b"null", b"\x00" * 30, b"{", b'{"a":NaN}', b"\xff\xfe", b"{}{}{}"]),
        st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")),
    )


def transcripts(session: str = session_id(1), max_lines: int = 12) -> st.SearchStrategy[bytes]:
    """The bytes of a file, with or without a final newline."""
    return st.builds(
        lambda some, end: b"\n".join(some) + end,
        st.lists(lines(session), max_size=max_lines),
        st.sampled_from([b"\n", b"\n", b""]),
    )


def cuts(data: bytes) -> st.SearchStrategy[list[int]]:
    """Where a growing file is looked at: any bytes, in order, the end last."""
    return st.lists(st.integers(0, len(data)), max_size=5).map(lambda some: [*sorted(some), len(data)])
