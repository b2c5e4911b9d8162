"""What a chain tells of itself, the branches beside it, and the sub-agents below it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.builders import CASES, Home, Log, call, millis, result, session_id, text, uuid
from transcripts import Chain, Index, InvalidRequest, NotFound

SESSION = session_id(1)


@pytest.fixture(autouse=True)
def held(home: Home) -> Iterator[None]:
    """A chain reads its bodies later: the database stays open as long as the test."""
    with home.open() as index:
        home.held = index
        yield
    home.held = None


def resumed(home: Home, log: Log, **options: object) -> Chain:
    home.write(log)
    home.sync()
    with home.open() as index:
        return index.resume(log.session, **options)  # type: ignore[arg-type]  # options by name


def parallel() -> Log:
    """The plain example: A asks, B makes three calls, C, D and E answer them, F hangs on E."""
    log = Log()
    log.user("A")
    reply = log.assistant([text("B"), call("t1"), call("t2"), call("t3")], id="msg_1")
    log.user([result("t1", "C")], parentUuid=reply)
    log.user([result("t2", "D")], parentUuid=reply)
    log.user([result("t3", "E")], parentUuid=reply)
    log.assistant("F", id="msg_2")
    return log


class TestWhatAChainTells:
    def test_three_parallel_results_come_back_in_order_and_are_marked_as_recovered(self, home: Home) -> None:
        chain = resumed(home, parallel())
        assert [entry.uuid for entry in chain.entries] == [uuid(number) for number in range(1, 7)]
        assert [entry.recovered for entry in chain.entries] == [False, False, True, True, False, False]

    def test_the_lines_are_the_records_as_they_stand_in_the_file(self, home: Home) -> None:
        log = parallel()
        assert list(resumed(home, log).lines()) == log.lines

    def test_the_lines_come_from_the_kept_bytes_when_the_file_is_gone_or_was_changed_since(self, home: Home) -> None:
        log = parallel()
        chain = resumed(home, log)
        home.path(SESSION).write_bytes(log.data.replace(b"A", b"X"))
        assert list(chain.lines()) == log.lines
        shutil.rmtree(home.projects)
        assert list(chain.lines()) == log.lines

    def test_a_record_that_was_overwritten_in_place_comes_from_the_kept_bytes_and_so_do_those_behind_it(self, home: Home) -> None:
        log = Log().turns(3)
        chain = resumed(home, log)
        path = home.path(SESSION)
        status = path.stat()
        third = sum(len(line) + 1 for line in log.lines[:2])
        with path.open("r+b") as file:
            file.seek(third)
            file.write(log.lines[2].replace(b"user", b"resu"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert list(chain.lines()) == log.lines

    def test_a_gap_is_joined_within_five_seconds_and_told(self, home: Home) -> None:
        log = Log().turns(2)
        log.user("after the gap", parentUuid=uuid(999))
        chain = resumed(home, log)
        assert len(chain.entries) == 5
        assert chain.joins == ((uuid(5), uuid(4), "a parent that is not there"),)
        assert "joined to" in chain.problems[0].reason

    def test_a_gap_of_more_than_five_seconds_ends_the_chain_and_is_told(self, home: Home) -> None:
        log = Log().turns(1)
        log.start = 60
        log.user("much later", parentUuid=uuid(999))
        chain = resumed(home, log)
        assert [entry.uuid for entry in chain.entries] == [uuid(3)]
        assert chain.joins == ((uuid(3), None, "a parent that is not there"),)

    def test_a_circle_ends_and_is_told_by_the_classic_rules(self, home: Home) -> None:
        log = Log()
        log.user("one", parentUuid=uuid(2))
        log.assistant("two")
        chain = resumed(home, log, rules="classic")
        assert [entry.uuid for entry in chain.entries] == [uuid(1), uuid(2)]
        assert chain.joins == ((uuid(1), None, "a circle"),)

    def test_calls_without_results_and_results_without_calls_are_problems(self, home: Home) -> None:
        log = Log()
        log.user("go")
        log.assistant([call("asked")], id="msg_1")
        log.user([result("never-asked")])
        reasons = {(problem.reason, problem.excerpt) for problem in resumed(home, log).problems}
        assert reasons == {("a call without a result", "asked"), ("a result without its call", "never-asked")}

    def test_dropped_lines_are_named_with_the_reason(self, home: Home) -> None:
        log = Log()
        log.user("go")
        log.assistant(" \n", id="msg_1")
        log.user("go on")
        log.assistant("done", id="msg_2")
        chain = resumed(home, log)
        assert chain.dropped == ((uuid(2), "nothing but white space"),)

    def test_unreached_messages_are_counted_by_reason(self, home: Home) -> None:
        log = Log()
        log.user("first")
        log.assistant("dead end")
        log.user("a helper", isSidechain=True, parentUuid=None)
        log.user("again", parentUuid=uuid(1))
        log.raw(b'{"cut":"' + parallel().lines[0].replace(uuid(1).encode(), uuid(77).encode()))
        assert resumed(home, log).unreached == {"another branch": 1, "salvaged": 1, "sidechain": 1}

    def test_what_stands_before_a_compaction_is_unreached(self, home: Home) -> None:
        log = Log().turns(2)
        log.chain("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=log.tip, compactMetadata={})
        log.turns(1)
        assert resumed(home, log).unreached == {"before a boundary": 4}

    def test_each_entry_carries_its_usage(self, home: Home) -> None:
        log = Log()
        log.user("go")
        log.assistant("done", id="m", tokens={"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3})
        usages = [entry.usage for entry in resumed(home, log).entries]
        assert usages[0] is None
        assert usages[1] == (1, 2, 3, 0)

    def test_preserved_assistants_cost_nothing_under_the_classic_rules(self, home: Home) -> None:
        path = next((CASES / "faults/preserved-segment/projects").glob("*/*.jsonl"))
        with home.open() as index:
            index.sync([path])
            kept = [entry for entry in index.resume(str(path), rules="classic").entries if entry.usage]
            assert any(entry.usage == (0, 0, 0, 0) for entry in kept)

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ([("user", "go"), ("assistant", "done")], "none"),
            ([("user", "go")], "interrupted_prompt"),
            ([("user", "go"), ("assistant", [call("t")])], "interrupted_turn"),
            ([("user", "go"), ("assistant", [call("t")]), ("user", [result("t")])], "interrupted_turn"),
        ],
    )
    def test_an_interruption_is_told(self, home: Home, content: list[tuple[str, object]], expected: str) -> None:
        log = Log()
        for kind, said in content:
            log.user(said) if kind == "user" else log.assistant(said, id="msg_1")
        assert resumed(home, log).interruption == expected

    def test_the_state_is_the_last_of_each_kind_also_from_before_a_compaction(self, home: Home) -> None:
        log = Log().turns(1)
        log.title("A name")
        log.about("tag", tag="work")
        log.about("mode", mode="plan")
        log.about("mode", mode="normal")
        log.about("permission-mode", permissionMode="acceptEdits")
        log.about("pr-link", prUrl="https://x/1", prNumber=1)
        log.about("pr-link", prUrl="https://x/2", prNumber=2)
        log.about("file-history-snapshot", messageId=uuid(5), snapshot={})
        log.about("file-history-snapshot", messageId=uuid(500), snapshot={})
        log.chain("system", subtype="compact_boundary", parentUuid=None, compactMetadata={})
        log.about("news-of-tomorrow", value=3)
        log.turns(2)
        state = resumed(home, log).state
        assert (state.title, state.tag, state.mode, state.permission_mode) == ("A name", "work", "normal", "acceptEdits")
        assert [link["prNumber"] for link in state.links] == [1, 2]
        assert [snapshot["messageId"] for snapshot in state.file_history] == [uuid(5)]
        assert state.others["news-of-tomorrow"]["value"] == 3

    def test_extra_messages_of_a_start_hook_are_added_at_the_end(self, home: Home) -> None:
        messages = resumed(home, parallel()).messages(extra=[{"role": "user", "content": "from a hook"}])
        assert messages[-1] == {"role": "user", "content": [{"type": "text", "text": "from a hook"}]}

    def test_a_session_of_metadata_only_has_no_conversation_and_says_so(self, home: Home) -> None:
        log = Log()
        log.title("nothing else")
        chain = resumed(home, log)
        assert (chain.entries, chain.leaf) == ((), None)
        assert chain.leaf_reason == "no line that is not a sidechain"

    def test_a_chain_that_was_cut_gives_no_messages(self, home: Home) -> None:
        with pytest.raises(InvalidRequest, match="whole chain"):
            resumed(home, parallel(), last=1).messages()

    def test_unknown_rules_and_leaves_are_refused_with_what_there_is(self, home: Home) -> None:
        with pytest.raises(InvalidRequest, match="current, classic"):
            resumed(home, parallel(), rules="wild")
        with pytest.raises(NotFound, match="no message"):
            resumed(home, parallel(), leaf="nobody")

    def test_a_salvaged_progress_line_leads_nowhere(self, home: Home) -> None:
        log = Log().turns(1)
        log.chain("progress")
        log.lines[-1] = b"\0\0" + log.lines[-1]
        log.user("hangs on the progress line", timestamp=None)
        assert [entry.uuid for entry in resumed(home, log).entries] == [uuid(4)]

    def test_a_salvaged_pointer_points_nowhere(self, home: Home) -> None:
        log = Log().turns(2)
        log.about("last-prompt", leafUuid=uuid(1), explicit=True)
        log.lines[-2:] = [b"".join(log.lines[-2:])]
        assert len(resumed(home, log).entries) == 4

    def test_a_classic_segment_whose_anchor_is_in_no_line_still_takes_the_lines_that_name_it(self, home: Home) -> None:
        log = Log().turns(1)
        segment = {"headUuid": uuid(1), "tailUuid": uuid(2), "anchorUuid": uuid(999)}
        log.chain("system", subtype="compact_boundary", parentUuid=None, compactMetadata={"preservedSegment": segment})
        log.user("hangs on the anchor", parentUuid=uuid(999))
        chain = resumed(home, log, rules="classic")
        assert [entry.uuid for entry in chain.entries] == [uuid(1), uuid(2), uuid(4)]

    def test_salvaged_lines_are_no_part_of_the_chain(self, home: Home) -> None:
        log = Log()
        log.user("first")
        log.assistant("second")
        log.lines[-1] = b'{"torn":"' + log.lines[-1]
        assert [entry.uuid for entry in resumed(home, log).entries] == [uuid(1)]


class TestBranches:
    def two(self) -> Log:
        log = Log().turns(2)
        log.start = 100
        log.user("take the other way", parentUuid=uuid(2))
        log.assistant("as you like", id="msg_9")
        return log

    def test_every_end_is_listed_with_length_fork_and_first_differing_prompt(self, home: Home) -> None:
        home.write(self.two())
        home.sync()
        with home.open() as index:
            taken, left = index.branches(SESSION)
        assert (taken.leaf, taken.kind, taken.length, taken.fork) == (uuid(6), "resumed", 4, None)
        assert (left.leaf, left.kind, left.length, left.fork, left.own) == (uuid(4), "branch", 4, uuid(2), 2)
        assert left.prompt == "word 3 ask 1"
        assert (left.started_at, left.ended_at) == (millis(2), millis(3))

    def test_any_of_them_can_be_resumed(self, home: Home) -> None:
        home.write(self.two())
        home.sync()
        with home.open() as index:
            for branch in index.branches(SESSION):
                chain = index.resume(SESSION, leaf=branch.leaf)
                assert (chain.leaf, len(chain.entries)) == (branch.leaf, branch.length)

    def test_what_a_compaction_ended_is_a_branch_and_can_be_resumed(self, home: Home) -> None:
        log = Log().turns(2)
        log.chain("system", subtype="compact_boundary", parentUuid=None, compactMetadata={})
        log.turns(1)
        home.write(log)
        home.sync()
        with home.open() as index:
            assert [(branch.kind, branch.length) for branch in index.branches(SESSION)] == [("resumed", 3), ("compacted", 4)]
            assert len(index.resume(SESSION, leaf=uuid(4)).entries) == 4

    def test_what_preserved_messages_pruned_can_still_be_resumed_by_its_leaf(self, home: Home) -> None:
        path = next((CASES / "faults/preserved-segment/projects").glob("*/*.jsonl"))
        with home.open() as index:
            index.sync([path])
            for branch in index.branches(str(path)):
                assert index.resume(str(path), leaf=branch.leaf).entries

    def test_parallel_replies_are_no_branches(self, home: Home) -> None:
        home.write(parallel())
        home.sync()
        with home.open() as index:
            assert [branch.kind for branch in index.branches(SESSION)] == ["resumed"]

    def test_the_tree_parts_where_the_branches_do(self, home: Home) -> None:
        home.write(self.two())
        home.sync()
        with home.open() as index:
            (root,) = index.tree(SESSION)
        assert (root.first, root.last, root.length) == (uuid(1), uuid(2), 2)
        assert [(child.last, child.prompt) for child in root.children] == [
            (uuid(6), "take the other way"),
            (uuid(4), "word 3 ask 1"),
        ]


class TestSubAgents:
    def write(self, home: Home) -> None:
        main = Log().turns(1)
        main.assistant([call("t1", "Agent"), call("t2", "Agent")], id="msg_7")
        main.user([result("t1")], toolUseResult={"agentId": "one"})
        main.assistant("done", id="msg_8")
        home.write(main)
        common = {"isSidechain": True}
        one = Log(first=100, common=common | {"agentId": "one"})
        one.user("look at this")
        one.assistant([call("n1", "Agent")], id="msg_9")
        home.write(one.data, f"{SESSION}/subagents/agent-one.jsonl")
        two = Log(first=200, start=50, common=common | {"agentId": "two"}).turns(1)
        home.write(two.data, f"{SESSION}/subagents/agent-two.jsonl")
        home.write(b'{"toolUseId":"t2","agentType":"Explore"}', f"{SESSION}/subagents/agent-two.meta.json")
        nested = Log(first=300, start=90, common=common | {"agentId": "nested"}).turns(2)
        home.write(nested.data, f"{SESSION}/subagents/workflows/w1/agent-nested.jsonl")
        home.write(b'{"toolUseId":"n1"}', f"{SESSION}/subagents/workflows/w1/agent-nested.meta.json")
        home.sync()

    def test_each_knows_the_call_that_started_it_and_who_made_it(self, home: Home) -> None:
        self.write(home)
        with home.open() as index:
            found = [(agent.id, agent.tool_use_id, agent.caller, agent.agent_type) for agent in index.subagents(SESSION)]
        assert found == [("one", "t1", None, None), ("two", "t2", None, "Explore"), ("nested", "n1", "one", None)]

    def test_each_is_resumed_on_its_own_level(self, home: Home) -> None:
        self.write(home)
        with home.open() as index:
            assert [entry.uuid for entry in index.resume(SESSION, agent="nested").entries] == [uuid(at) for at in range(300, 304)]
            assert index.resume(SESSION, agent="tw").leaf == uuid(201)
            with pytest.raises(NotFound, match="one, two, nested"):
                index.resume(SESSION, agent="nobody")

    def test_a_sidechain_inside_an_old_main_file_is_an_agent_of_its_own(self, home: Home) -> None:
        log = Log().turns(1)
        log.user("do it", isSidechain=True, parentUuid=None)
        log.assistant("did it", isSidechain=True, id="msg_s")
        log.user("thanks", parentUuid=uuid(2))
        home.write(log)
        home.sync()
        with home.open() as index:
            (agent,) = index.subagents(SESSION)
            assert (agent.id, agent.root, agent.prompt, agent.message_count) == (uuid(3), uuid(3), "do it", 2)
            assert [entry.uuid for entry in index.resume(SESSION, agent=agent.id).entries] == [uuid(3), uuid(4)]
            assert [entry.uuid for entry in index.resume(SESSION).entries] == [uuid(1), uuid(2), uuid(5)]

    def test_an_agent_file_can_be_resumed_by_its_path(self, home: Home) -> None:
        self.write(home)
        with home.open() as index:
            assert len(index.resume(str(home.path(f"{SESSION}/subagents/agent-two.jsonl"))).entries) == 2


class TestNewest:
    def test_the_newest_session_of_a_directory_is_found(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.write(Log(session_id(2), first=50, start=50, common={"cwd": "/elsewhere"}).turns(1))
        home.sync()
        with home.open() as index:
            assert _newest(index, "/home/dev/shop") == SESSION
            assert _newest(index, "/home/dev/shop", "/elsewhere") == session_id(2)
            with pytest.raises(NotFound, match="/nowhere"):
                index.newest(["/nowhere"])


def _newest(index: Index, *directories: str) -> str:
    return index.newest(list(directories)).id
