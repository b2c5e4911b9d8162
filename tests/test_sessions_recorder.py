"""A list that grows, is compacted, or is wound back; and going on with a session that was resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Home, Json, Lab, Log, session_id, uuid
from tests.models import current
from tests.models.trees import ordinary_transcripts, wild_transcripts
from tests.models.writer import SESSION as WRITTEN
from tests.test_models import ALL, Case, name_of
from tests.test_sessions_recording import boundary, conversations, hung, message
from transcripts import InvalidRequest
from transcripts.sessions.recorder import Recorder
from transcripts.sessions.recording import Message, Parents, Recorded

SESSION = session_id(1)
NEXT = "ffffffff-0000-4000-8000-000000000001"


def prompt(uuid: str = NEXT) -> Json:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": "go on"}}


@pytest.fixture
def path(home: Home) -> Path:
    return home.path(SESSION)


class TestGrowth:
    def test_only_the_new_tail_is_looked_at(self) -> None:
        seen: list[list[Message]] = []

        def write(given: Any, parents: Parents) -> Recorded:
            seen.append([*given])
            return Recorded({**parents, None: given[-1]["uuid"]}, [])

        recorder = Recorder(write)
        history = [message(1)]
        assert recorder.record(history) == uuid(1)
        history += [message(2), message(3)]
        assert recorder.record(history) == uuid(3)
        assert recorder.record(history) == uuid(3)
        assert [[one["uuid"] for one in some] for some in seen] == [[uuid(1)], [uuid(2), uuid(3)]]

    def test_what_waits_for_a_first_message_comes_before_it(self, home: Home, path: Path) -> None:
        with home.open() as index:
            recorder = index.recorder(str(path))
            history = [message(1, "attachment"), {"type": "mode", "mode": "plan"}]
            assert recorder.record(history) is None
            assert not path.exists()
            assert recorder.record([*history, message(2)]) == uuid(2)
        assert hung(path) == [("001", None), ("002", "001")]

    def test_a_compacted_list_goes_on_behind_its_boundary(self, home: Home, path: Path) -> None:
        with home.open() as index:
            recorder = index.recorder(str(path))
            recorder.record([message(1), message(2), message(3)])
            compacted = [boundary(4), message(5, isCompactSummary=True), message(3)]
            assert recorder.record(compacted) == uuid(5)
            assert recorder.record([*compacted, message(6)]) == uuid(6)
            assert [entry.uuid for entry in index.resume(SESSION).entries] == [uuid(4), uuid(5), uuid(6)]
        assert hung(path)[3:] == [("004", None), ("005", "004"), ("006", "005")]
        assert json.loads(path.read_bytes().splitlines()[3])["logicalParentUuid"] == uuid(3)

    def test_a_list_wound_back_goes_on_where_it_was_wound_to(self, home: Home, path: Path) -> None:
        with home.open() as index:
            recorder = index.recorder(str(path))
            recorder.record([message(1), message(2), message(3), message(4)])
            assert recorder.record([message(1), message(2)]) == uuid(2)
            assert recorder.record([message(1), message(2), message(5)]) == uuid(5)
            longer = [message(1), message(6), message(7), message(8)]  # wound back and gone on in one step
            assert recorder.record(longer) == uuid(8)
        assert hung(path)[4:] == [("005", "002"), ("006", "001"), ("007", "006"), ("008", "007")]

    def test_what_failed_is_taken_when_it_is_given_again(self, home: Home, path: Path) -> None:
        with home.open() as index:
            recorder = index.recorder(str(path))
            recorder.record([message(1)])
            with pytest.raises(InvalidRequest):
                recorder.record([message(1), message(2, odd=object())])
            assert recorder.record([message(1), message(2)]) == uuid(2)
        assert hung(path) == [("001", None), ("002", "001")]

    def test_a_message_that_could_not_be_known_again_is_refused(self, home: Home, path: Path) -> None:
        with home.open() as index, pytest.raises(InvalidRequest, match="uuid"):
            index.recorder(str(path)).record([message(1), {"type": "user"}])
        assert not path.exists()

    def test_an_empty_list_is_nothing(self, home: Home, path: Path) -> None:
        with home.open() as index:
            assert index.recorder(str(path)).record([]) is None

    def test_a_sub_agents_lines_go_on_below_their_own(self, home: Home, path: Path) -> None:
        side: Json = {"isSidechain": True, "agentId": "a1"}
        with home.open() as index:
            recorder = index.recorder(str(path))
            history = [message(1), message(7, **side)]
            recorder.record(history)
            recorder.record([*history, message(2), message(8, **side)])
        assert hung(path) == [("001", None), ("002", "001")]
        assert hung(home.path(f"{SESSION}/subagents/agent-a1.jsonl")) == [("007", None), ("008", "007")]

    @settings(max_examples=40)
    @given(conversations(), st.lists(st.integers(0, 13), max_size=5))
    def test_any_steps_of_growth_are_one(self, lab: Lab, given: list[Json], steps: list[int]) -> None:
        homes = lab.home("one"), lab.home("other")
        for home, ends in zip(homes, ([], sorted(steps)), strict=True):
            with home.open() as index:
                recorder = index.recorder(str(home.path(SESSION)))
                for end in [*ends, len(given)]:
                    recorder.record(given[:end])
        assert homes[0].path(SESSION).read_bytes() == homes[1].path(SESSION).read_bytes()


class TestAdopt:
    """The next message lands in the same file, and the chain is the one before with it at its end."""

    def adopted(self, home: Home, data: bytes) -> None:
        before = current.resume(data)
        path = home.write(data, WRITTEN)
        with home.open() as index:
            index.sync([home.projects])
            recorder = index.adopt(WRITTEN)
            assert recorder.record([prompt()]) == NEXT
            if before is not None:
                assert path.read_bytes().startswith(data)
                assert current.resume(path.read_bytes()) == [*before, NEXT]
                assert [entry.uuid for entry in index.resume(WRITTEN).entries] == [*before, NEXT]

    @pytest.mark.parametrize("case", ALL, ids=name_of)
    def test_every_recorded_transcript(self, home: Home, case: Case) -> None:
        self.adopted(home, case.path.read_bytes())

    @settings(max_examples=60)
    @given(ordinary_transcripts())
    def test_ordinary_transcripts(self, lab: Lab, data: bytes) -> None:
        self.adopted(lab.home("one"), data)

    @settings(max_examples=60)
    @given(wild_transcripts())
    def test_wild_transcripts(self, lab: Lab, data: bytes) -> None:
        self.adopted(lab.home("one"), data)

    def test_the_resumed_list_may_be_given_with_it(self, home: Home) -> None:
        home.write(Log().turns(2))
        home.sync()
        with home.open() as index:
            history = [json.loads(line) for line in index.resume(SESSION).lines()]
            assert index.adopt(SESSION).record([*history, prompt()]) == NEXT
            assert [entry.uuid for entry in index.resume(SESSION).entries] == [uuid(1), uuid(2), uuid(3), uuid(4), NEXT]

    def test_two_that_went_on_at_once_are_two_branches(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        home.sync()
        with home.open() as index:
            one, other = index.adopt(SESSION), index.adopt(SESSION)
            one.record([message(11)])
            other.record([message(12)])
            one.record([message(11), message(13)])
            assert hung(path)[2:] == [("011", "002"), ("012", "002"), ("013", "011")]
            assert {branch.leaf for branch in index.branches(SESSION)} == {uuid(12), uuid(13)}
