"""Recording by the rules of the published writer: what is new, what it hangs on, where it goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import CWD, KEY, Home, Json, Lab, Log, count, session_id, stopped_after, uuid
from tests.models import current
from transcripts import Ambiguous, DatabaseBusy, InvalidRequest, NotFound, Stamps
from transcripts.index import sync

SESSION = session_id(1)
ROOT = Path(__file__).parent.parent


def message(number: int, kind: str = "user", **fields: Any) -> Json:
    said: Json = {"type": kind, "uuid": uuid(number), "timestamp": f"2026-03-02T10:00:{number % 60:02d}.000Z"}
    if kind in ("user", "assistant"):
        said["message"] = {"role": kind, "content": f"words {number}"}
    return said | fields


def boundary(number: int, **fields: Any) -> Json:
    return message(number, "system", subtype="compact_boundary", **fields)


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def hung(path: Path) -> list[tuple[str, str | None]]:
    """Each chain line and what it hangs on, by the ends of their uuids."""
    return [(line["uuid"][-3:], line["parentUuid"] and line["parentUuid"][-3:]) for line in lines(path) if "uuid" in line]


class TestRules:
    def record(self, home: Home, *given: Json, parent: str | None = None, **options: Any) -> str | None:
        with home.open() as index:
            return index.record(str(home.path(SESSION)), given, parent, **options)

    def test_each_hangs_on_the_last_one_before_it_progress_aside(self, home: Home) -> None:
        given = [message(1), message(2, "assistant"), message(3, "progress"), message(4, "attachment"), message(5)]
        assert self.record(home, *given) == uuid(5)
        assert hung(home.path(SESSION)) == [("001", None), ("002", "001"), ("003", "002"), ("004", "002"), ("005", "004")]

    def test_progress_is_no_parent_to_go_on_from(self, home: Home) -> None:
        assert self.record(home, message(1), message(2, "progress")) == uuid(1)

    def test_the_hint_is_what_the_first_new_one_hangs_on(self, home: Home) -> None:
        assert self.record(home, message(1), message(2)) == uuid(2)
        assert self.record(home, message(3), parent=uuid(1)) == uuid(3)
        assert hung(home.path(SESSION))[-1] == ("003", "001")

    def test_known_ones_are_skipped_and_move_the_parent_while_nothing_new_was_met(self, home: Home) -> None:
        self.record(home, message(1), message(2), message(3, "progress"))
        assert self.record(home, message(1), message(3, "progress"), message(4), message(2), message(5)) == uuid(5)
        assert hung(home.path(SESSION))[3:] == [("004", "001"), ("005", "004")]
        assert self.record(home, message(1), message(2)) == uuid(2)
        assert len(lines(home.path(SESSION))) == 5

    def test_a_list_that_repeats_itself_is_written_once(self, home: Home) -> None:
        self.record(home, message(1), message(2), message(1), message(3))
        assert hung(home.path(SESSION)) == [("001", None), ("002", "001"), ("003", "001")]

    def test_a_result_hangs_on_the_line_that_made_the_call(self, home: Home) -> None:
        answers = [message(at, sourceToolAssistantUUID=uuid(at - 2)) for at in (4, 5)]
        self.record(home, message(1), message(2, "assistant"), message(3, "assistant"), *answers, message(6))
        assert hung(home.path(SESSION))[3:] == [("004", "002"), ("005", "003"), ("006", "005")]

    def test_a_boundary_hangs_on_nothing_and_names_what_came_before(self, home: Home) -> None:
        self.record(home, message(1), boundary(2), message(3), boundary(4, logicalParentUuid=uuid(1)))
        assert hung(home.path(SESSION)) == [("001", None), ("002", None), ("003", "002"), ("004", None)]
        assert [line.get("logicalParentUuid") for line in lines(home.path(SESSION))] == [None, uuid(1), None, uuid(1)]

    def test_a_given_parent_is_not_believed(self, home: Home) -> None:
        self.record(home, message(1), message(2, parentUuid="elsewhere"))
        assert hung(home.path(SESSION)) == [("001", None), ("002", "001")]

    def test_stamps(self, home: Home) -> None:
        stamps = Stamps(cwd=CWD, version="2.1.332", git_branch="main", team_name="red", agent_name="scout")
        given = message(1, cwd="/else/where", sessionId="another", extra={"kept": [1]})
        self.record(home, given, message(2, teamName="blue"), stamps=stamps)
        first, second = lines(home.path(SESSION))
        assert list(first)[:4] == ["parentUuid", "isSidechain", "teamName", "agentName"]
        assert first | {"parentUuid": None} == {
            **given, "parentUuid": None, "isSidechain": False, "teamName": "red", "agentName": "scout", "userType": "external",
            "cwd": CWD, "sessionId": SESSION, "version": "2.1.332", "gitBranch": "main",
        }  # fmt: skip
        assert second["teamName"] == "blue"

    def test_what_is_not_given_is_stamped_as_the_session_says(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        with home.open() as index:
            parent = index.record(SESSION, [{"type": "user", "message": {"role": "user", "content": "on"}}], uuid(2))
        last = lines(home.path(SESSION))[-1]
        assert last["uuid"] == parent
        assert (last["cwd"], last["version"], last["gitBranch"], last["sessionId"]) == (CWD, "2.1.332", "main", SESSION)
        assert last["timestamp"].endswith("Z")

    def test_lines_about_the_session_stand_in_their_place(self, home: Home) -> None:
        self.record(home, message(1), {"type": "mode", "mode": "plan", "sessionId": "x"}, message(2))
        assert lines(home.path(SESSION))[1] == {"type": "mode", "mode": "plan", "sessionId": SESSION}
        assert hung(home.path(SESSION)) == [("001", None), ("002", "001")]

    @pytest.mark.parametrize("wrong", [{}, {"type": 1}, "user", {"type": "user", "uuid": 1}, {"type": "user", "a": object()}])
    def test_what_is_no_entry_is_refused_before_anything_is_written(self, home: Home, wrong: Any) -> None:
        side = message(9, isSidechain=True, agentId="a1")
        with pytest.raises(InvalidRequest):
            self.record(home, side, message(1), wrong)
        assert not home.projects.exists() or not list(home.projects.rglob("*.jsonl"))


class TestBeginning:
    def test_the_file_comes_with_the_first_user_or_assistant_message(self, home: Home) -> None:
        path = home.path(SESSION)
        with home.open() as index:
            assert index.record(str(path), [message(1, "attachment"), {"type": "mode", "mode": "plan"}], "hint") == "hint"
            assert not path.parent.exists()
            index.record(str(path), [message(1, "attachment"), message(2)])
        assert hung(path) == [("001", None), ("002", "001")]

    def test_a_session_is_begun_by_its_id_where_the_client_would_put_it(self, home: Home) -> None:
        home.projects.mkdir(parents=True)
        home.sync()
        with home.open() as index:
            index.record(SESSION, [message(1)], stamps=Stamps(cwd=CWD))
            assert index.session(SESSION).project == CWD
        assert hung(home.path(SESSION, KEY)) == [("001", None)]

    def test_where_that_is_not_certain_it_is_asked_for(self, home: Home) -> None:
        with home.open() as index:
            with pytest.raises(NotFound, match="directory"):
                index.record(SESSION, [message(1)])
            with pytest.raises(InvalidRequest, match="not certain"):
                index.record(SESSION, [message(1)], stamps=Stamps(cwd=CWD))
            for wrong in ("a/b.txt", "a/.jsonl", "a/agent-1.jsonl", "a\0/b.jsonl", "\ud83d.jsonl"):
                with pytest.raises(InvalidRequest, match="no name"):
                    index.record(wrong, [message(1)])

    def test_a_file_that_is_there_but_was_never_imported_is_gone_on_with(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        with home.open() as index:
            index.record(str(path), [message(1), message(2), message(3)])
        assert hung(path) == [("001", None), ("002", "001"), ("003", "002")]

    def test_a_session_that_is_gone_or_a_sub_agents_is_not_written_to(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        agent = home.write(Log().turns(1).data, f"{session_id(2)}/subagents/agent-x.jsonl")
        home.sync()
        path.unlink()
        with home.open(fresh=True) as index:
            with pytest.raises(InvalidRequest, match="restore"):
                index.record(SESSION, [message(5)])
            with pytest.raises(InvalidRequest, match="sub-agent"):
                index.record(str(agent), [message(5)])
        assert not path.exists()

    def test_a_file_that_vanishes_unseen_is_not_begun_anew(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        home.sync()
        path.unlink()
        with home.open() as index, pytest.raises(NotFound):
            index.record(SESSION, [message(5)])
        assert not path.exists()

    def test_an_ambiguous_name_is_refused(self, home: Home) -> None:
        for at in (1, 2):
            home.write(Log(session_id(at), first=at * 10).turns(1))
        home.sync()
        with home.open() as index, pytest.raises(Ambiguous):
            index.record("5e55", [message(5)])


class TestSubAgents:
    def test_their_lines_go_to_their_own_file_and_are_always_written(self, home: Home) -> None:
        path = home.path(SESSION)
        side: Json = {"isSidechain": True, "agentId": "a1"}
        with home.open() as index:
            index.record(str(path), [message(1), message(2, "assistant")])
            assert index.record(SESSION, [message(1, **side), message(2, "assistant", **side)]) == uuid(2)
            assert index.record(SESSION, [message(3, **side)], uuid(2)) == uuid(3)
            own = home.path(f"{SESSION}/subagents/agent-a1.jsonl")
            assert hung(own) == [("001", None), ("002", "001"), ("003", "002")]
            assert all(line["isSidechain"] and line["sessionId"] == SESSION for line in lines(own))
            assert [agent.id for agent in index.subagents(SESSION)] == ["a1"]
            assert [entry.uuid for entry in index.resume(SESSION, agent="a1").entries] == [uuid(1), uuid(2), uuid(3)]
        assert len(lines(path)) == 2

    def test_main_lines_and_theirs_do_not_hang_on_each_other(self, home: Home) -> None:
        side: Json = {"isSidechain": True, "agentId": "a1"}
        with home.open() as index:
            path = str(home.path(SESSION))
            assert index.record(path, [message(1), message(7, **side), message(2), message(8, **side)]) == uuid(2)
        assert hung(home.path(SESSION)) == [("001", None), ("002", "001")]
        assert hung(home.path(f"{SESSION}/subagents/agent-a1.jsonl")) == [("007", None), ("008", "007")]

    @pytest.mark.parametrize("agent", ["", "../x", "a/b", "a\0", "a\ud83d"])
    def test_no_id_leads_elsewhere(self, home: Home, agent: str) -> None:
        with home.open() as index, pytest.raises(InvalidRequest, match="no id"):
            index.record(str(home.path(SESSION)), [message(1), message(2, isSidechain=True, agentId=agent)])
        assert not home.path(SESSION).exists()

    def test_a_sidechain_without_an_agent_stays_in_the_session(self, home: Home) -> None:
        with home.open() as index:
            index.record(str(home.path(SESSION)), [message(1), message(2, isSidechain=True)])
        assert [line["isSidechain"] for line in lines(home.path(SESSION))] == [False, True]


kinds = st.sampled_from(["user", "assistant", "progress", "attachment", "boundary", "result", "mode", "side"])


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """Messages with uuids of their own, the first one a prompt."""
    given = [message(1)]
    for at, kind in enumerate(draw(st.lists(kinds, max_size=12)), 2):
        match kind:
            case "boundary":
                given.append(boundary(at))
            case "result":
                given.append(message(at, sourceToolAssistantUUID=uuid(draw(st.integers(1, at - 1)))))
            case "mode":
                given.append({"type": "mode", "mode": f"{at}"})
            case "side":
                given.append(message(at, isSidechain=True))
            case _:
                given.append(message(at, kind))
    return given


@settings(max_examples=40)
@given(conversations(), st.lists(st.integers(0, 13), max_size=5))
def test_recording_in_any_slices_is_recording_at_once(lab: Lab, given: list[Json], cuts: list[int]) -> None:
    homes = lab.home("one"), lab.home("other")
    for home, places in zip(homes, ([], sorted(cuts)), strict=True):
        parent = None
        with home.open() as index:
            for begin, end in zip([0, *places], [*places, len(given)], strict=True):
                parent = index.record(str(home.path(SESSION)), given[begin:end], parent)
    assert homes[0].path(SESSION).read_bytes() == homes[1].path(SESSION).read_bytes()
    with homes[1].open() as index:
        chain = [entry.uuid for entry in index.resume(SESSION).entries]
    assert chain == (current.resume(homes[1].path(SESSION).read_bytes()) or [])


class TestBetweenProcesses:
    def test_two_that_record_the_same_messages_write_each_once(self, home: Home) -> None:
        home.projects.mkdir(parents=True)
        home.write(Log(first=900).turns(1))
        home.sync()
        given = "\n".join(json.dumps(message(at)) for at in range(1, 26))
        command = [sys.executable, "-m", "tests.writing", "record", str(home.db), SESSION]
        writers = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True) for _ in range(2)]
        for each in writers:
            assert each.stdin is not None
            each.stdin.write(given)
            each.stdin.flush()
        for each in writers:
            each.communicate()
        assert [each.returncode for each in writers] == [0, 0]
        found = [line["uuid"] for line in lines(home.path(SESSION))]
        assert found[:2] == [uuid(900), uuid(901)]
        assert sorted(found[2:]) == [uuid(at) for at in range(1, 26)]
        home.sync()
        with home.open() as index:
            assert index.damage() == []

    def test_a_torn_line_is_closed_and_the_message_in_it_written_again(self, home: Home) -> None:
        log = Log().turns(1)
        home.write(log.data + b'{"type":"user","uuid":"' + uuid(3).encode())
        home.sync()
        with home.open() as index:
            index.record(SESSION, [message(at) for at in (1, 2, 3)])
            assert [entry.uuid for entry in index.resume(SESSION).entries] == [uuid(at) for at in (1, 2, 3)]

    def test_a_last_line_without_its_newline_is_known(self, home: Home) -> None:
        home.write(Log().turns(1).data[:-1])
        home.sync()
        with home.open() as index:
            index.record(SESSION, [message(2), message(3)])
            assert [entry.uuid for entry in index.resume(SESSION).entries] == [uuid(at) for at in (1, 2, 3)]

    def test_what_is_killed_before_its_import_is_imported_by_the_next_sync(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        command = [sys.executable, "-m", "tests.writing", "killed", str(home.db), SESSION]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
        with home.open() as index:
            assert index.session(SESSION).title != "A title that is not imported"
            index.sync()
            assert index.session(SESSION).title == "A title that is not imported"
            index.rename(SESSION, "And this one")
            assert index.session(SESSION).title == "And this one"

    def test_a_busy_database_loses_no_line(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(1))
        home.sync()
        whole = sync.sync

        def busy(*_args: Any, **_options: Any) -> None:
            raise DatabaseBusy(str(home.db), 60)

        with home.open() as index:
            monkeypatch.setattr(sync, "sync", busy)
            index.rename(SESSION, "Written")
            with pytest.raises(DatabaseBusy):  # what is there is not known: nothing is written
                index.record(SESSION, [message(5)])
            monkeypatch.setattr(sync, "sync", whole)
            assert len(lines(home.path(SESSION))) == 3
            index.sync()
            assert index.session(SESSION).title == "Written"
            assert index.record(SESSION, [message(5)], uuid(2)) == uuid(5)

    def test_stopped_after_any_commit_it_goes_on(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        with home.open() as index:
            with stopped_after(1):
                index.record(SESSION, [message(5)], uuid(2))
            index.sync()
            assert index.record(SESSION, [message(5), message(6)]) == uuid(6)
            assert count(index, "messages") == 4
        assert os.listdir(home.path(SESSION).parent) == [f"{SESSION}.jsonl"]
