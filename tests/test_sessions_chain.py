"""Resume is the real client's: on recorded cases, and against an independent model in plain Python.

What the models are and how they were held to the evidence themselves is in tests/models and test_models.py.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.models import classic, current, trees
from tests.models.lines import read_objects
from tests.test_models import ALL, UNMAPPED, WITH_CLASSIC, WITH_SENT, Case, expected_part, name_of
from transcripts import Chain, Index
from transcripts.sessions import replay, scan

GENERATED = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

Resume = Callable[..., Chain]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.open(tmp_path_factory.mktemp("chain") / "transcripts.db", fresh=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def resume(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Resume:
    """Import bytes as a transcript of their own, and resume it."""
    folder = tmp_path_factory.mktemp("generated")
    number = itertools.count()

    def resumed(data: bytes, **options: Any) -> Chain:
        path = folder / f"{next(number)}.jsonl"
        path.write_bytes(data)
        index.sync([path])
        return index.resume(str(path), **options)

    return resumed


def uuids(chain: Chain) -> list[str]:
    return [entry.uuid for entry in chain.entries]


def sent(chain: Chain) -> list[tuple[str, str | None, str]]:
    """The parts that are sent, in the words of the models."""
    why = {replay.NO_CONTENT: " no content", replay.NO_RESPONSE: " no response", replay.MISSING: " missing"}
    found = []
    for part in chain.parts():
        made_up = "" if part.uuid else str(part.block.get("text") or part.block.get("content"))
        call = f" {part.call}" if part.kind in ("tool_use", "tool_result") else ""
        found.append((part.role, part.uuid, part.kind + call + (why.get(made_up, " interrupted") if made_up else "")))
    return found


def repeated_at_the_head_of_a_glued_line(data: bytes) -> bool:
    """Whether a uuid stands both on a line of its own and at the head of a glued one.

    The one known difference: the table holds a uuid's last line, which the current rules read and the classic ones lose, and
    not the one before it, which these would read instead.
    """
    alone = Counter(str(raw.get("uuid")) for _number, raw in read_objects(data, keep_glued=False))
    every = Counter(str(raw.get("uuid")) for _number, raw in read_objects(data, keep_glued=True))
    return any(uuid in alone and number > alone[uuid] for uuid, number in every.items())


class TestRecordedCases:
    @pytest.mark.parametrize("case", ALL, ids=name_of)
    def test_the_current_rules_give_the_chain_that_the_client_resumed(self, index: Index, case: Case) -> None:
        index.sync([case.path])
        chain = index.resume(str(case.path))
        assert uuids(chain) == (case.expected["chain"] if case.expected.get("resumed", True) else [])
        assert chain.leaf_reason

    @pytest.mark.parametrize("case", WITH_CLASSIC, ids=name_of)
    def test_the_classic_rules_give_the_chain_that_the_older_client_resumed(self, index: Index, case: Case) -> None:
        index.sync([case.path])
        chain = index.resume(str(case.path), rules="classic")
        assert [entry.uuid for entry in chain.entries if entry.type != "attachment"] == case.expected["classic"]

    @pytest.mark.parametrize("case", WITH_SENT, ids=name_of)
    def test_what_is_sent_to_the_model_is_what_the_client_sent(self, index: Index, case: Case) -> None:
        index.sync([case.path])
        unmapped = case.name in UNMAPPED
        expected = [expected_part(role, uuid, summary, unmapped) for role, uuid, summary in case.expected["sent"]]
        found = sent(index.resume(str(case.path)))
        if unmapped:
            found = [
                (role, uuid if known else None, kind if known else kind.split(" ")[0])
                for (role, uuid, kind), (_, known, _) in zip(found, expected, strict=True)
            ]
        assert found == expected


class TestGeneratedTranscripts:
    @GENERATED
    @given(trees.ordinary_transcripts())
    def test_current_equals_the_model_on_what_a_client_writes(self, resume: Resume, data: bytes) -> None:
        assert uuids(resume(data)) == (current.resume(data) or [])

    @GENERATED
    @given(trees.wild_transcripts())
    def test_current_equals_the_model_on_worse(self, resume: Resume, data: bytes) -> None:
        assert uuids(resume(data)) == (current.resume(data) or [])

    @GENERATED
    @given(trees.ordinary_transcripts())
    def test_classic_equals_the_model_on_what_a_client_writes(self, resume: Resume, data: bytes) -> None:
        assert uuids(resume(data, rules="classic")) == (classic.resume(data) or [])

    @GENERATED
    @given(trees.wild_transcripts())
    def test_classic_equals_the_model_on_worse(self, resume: Resume, data: bytes) -> None:
        assume(not repeated_at_the_head_of_a_glued_line(data))
        assert uuids(resume(data, rules="classic")) == (classic.resume(data) or [])

    @GENERATED
    @given(trees.wild_transcripts())
    def test_what_is_sent_equals_the_model(self, resume: Resume, data: bytes) -> None:
        assert sent(resume(data)) == current.sent(data)

    @GENERATED
    @given(trees.wild_transcripts(), st.sampled_from([0, 1, 4]))
    def test_the_chain_is_the_same_however_it_is_read(self, resume: Resume, data: bytes, first: int) -> None:
        with pytest.MonkeyPatch.context() as patch:  # 0: never backwards; a few: now and then, up to somewhere
            patch.setattr(scan, "_FIRST", first)
            chain = resume(data)
            assert uuids(chain) == (current.resume(data) or [])
            assume(not repeated_at_the_head_of_a_glued_line(data))
            assert uuids(resume(data, rules="classic")) == (classic.resume(data) or [])

    @GENERATED
    @given(trees.ordinary_transcripts())
    def test_the_last_entries_are_the_end_of_the_whole_chain(self, resume: Resume, index: Index, data: bytes) -> None:
        whole = resume(data)
        for last in (0, 1, 3, 1000):
            chain = index.resume(whole.path, last=last)
            assert uuids(chain) == (uuids(whole)[-last:] if last else [])

    @GENERATED
    @given(trees.wild_transcripts())
    def test_the_messages_are_always_valid_for_the_api(self, resume: Resume, index: Index, data: bytes) -> None:
        path = resume(data).path
        for rules in ("current", "classic"):
            chain = index.resume(path, rules=rules)
            check_valid(chain.messages())
            check_valid(chain.messages(system_as_user=True))
            assert all(message["role"] != "system" for message in chain.messages(system_as_user=True))


def check_valid(messages: list[dict[str, Any]]) -> None:
    """User and assistant take turns; each call is answered in the next message; no result stands without its call."""
    talk = [message for message in messages if message["role"] != "system"]
    for message, following in itertools.pairwise([*talk, {"role": "end", "content": []}]):
        assert message["role"] != following["role"]
        assert message["content"]
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        answers = [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]
        assert sorted(set(calls)) == sorted(answers)
    json.dumps(messages, ensure_ascii=False).encode()


class TestWork:
    def test_a_chain_costs_its_length_and_not_the_dead_branches(
        self, resume: Resume, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = Written()
        tip = file.add("user", None)
        for _ in range(100):  # of 4,000 messages 200 are on the chain
            file.talk(tip, 19)
            tip = file.talk(tip, 1)
        chain, fetched = counting(lambda: resume(file.data), monkeypatch)
        assert len(chain.entries) == 201
        assert fetched <= 3 * len(chain.entries)
        _, few = counting(lambda: index.resume(chain.path, last=20), monkeypatch)
        assert few <= 3 * (2 * 20 + 256)

    def test_nor_does_it_when_dead_branches_come_after_a_stretch_without(
        self, resume: Resume, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = Written()
        tip = file.add("user", None)
        file.talk(tip, 5000)
        tip = file.talk(tip, 500)
        chain, fetched = counting(lambda: resume(file.data), monkeypatch)
        assert len(chain.entries) == 1001
        assert fetched <= 3 * len(chain.entries)

    def test_where_nothing_stands_beside_it_each_line_is_fetched_once(
        self, resume: Resume, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = Written()
        file.talk(file.add("user", None), 1000)
        for _ in range(5):
            file.talk(file.add("user", "lost"), 1)  # a gap
        chain, fetched = counting(lambda: resume(file.data), monkeypatch)
        assert len(chain.entries) == 2016
        assert len(chain.joins) == 5
        assert fetched <= len(chain.entries) + 100  # those looked at for the leaf and the gaps


class Written:
    """The lines of a transcript."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    @property
    def data(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def talk(self, tip: str, turns: int) -> str:
        """So many prompts and replies below a line; the last of them."""
        for _ in range(turns):
            tip = self.add("assistant", self.add("user", tip), id=f"msg-{len(self.lines)}")
        return tip

    def add(self, kind: str, parent: str | None, **more: Any) -> str:
        number = len(self.lines)
        message = {"role": kind, "content": [{"type": "text", "text": "words"}], **more}
        line = {"type": kind, "uuid": f"{kind}-{number}", "parentUuid": parent, "message": message, "timestamp": time_of(number)}
        self.lines.append(line)
        return f"{kind}-{number}"


def time_of(number: int) -> str:
    return f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"


def counting(work: Callable[[], Chain], monkeypatch: pytest.MonkeyPatch) -> tuple[Chain, int]:
    """How many rows the queries for a chain give."""
    from transcripts.sessions.tree import Tree

    fetched = 0
    real = Tree._rows

    def counted(self: Tree, statement: str, **values: Any) -> Iterator[Any]:
        nonlocal fetched
        for row in real(self, statement, **values):
            fetched += 1
            yield row

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "_rows", counted)
        return work(), fetched
