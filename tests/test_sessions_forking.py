"""Forks: the client's, which the real client made as well, and the Agent SDK's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest
from hypothesis import assume, given, settings

from tests.builders import CASES, Home, Json, Lab, Log, call, result, rows, session_id, stamp, text, uuid
from tests.models import current
from tests.models.trees import ordinary_transcripts, wild_transcripts
from tests.models.writer import SESSION as WRITTEN
from tests.test_models import ALL, Case, name_of
from transcripts import InvalidRequest, NotFound
from transcripts.files.place import project_key

SESSION = session_id(1)
GENUINE = CASES / "genuine" / "projects" / "-home-dev-code-g08"
BASE, FORK = "00000008-0000-4000-8000-000000000008", "00000108-0000-4000-8000-000000000108"


def forked(home: Home, data: bytes | Log, **options: Any) -> list[Json]:
    """The lines of a fork of a session with these bytes."""
    home.write(data)
    home.sync()
    with home.open() as index:
        new = index.fork(SESSION, **options)
        assert index.damage() == []
    return [json.loads(line) for line in home.path(new).read_bytes().splitlines()]


def only_thinks(record: Json) -> bool:
    content = record.get("message", {}).get("content")
    return record["type"] == "assistant" and all(block["type"] == "thinking" for block in content)


class TestLikeTheClient:
    def test_a_genuine_fork_is_made_again(self, home: Home) -> None:
        """The client forked the session before its second prompt. Only the id of a prompt is the client's own each time."""
        base = (GENUINE / f"{BASE}.jsonl").read_bytes()
        base = base[: base.index(b'{"type":"queue-operation"', 2000)]
        home.write(base, BASE)
        home.sync()
        with home.open() as index:
            new = index.fork(BASE)
        made = home.path(new).read_bytes().replace(new.encode(), FORK.encode())
        real = (GENUINE / f"{FORK}.jsonl").read_bytes()
        copied = [line for line in self.chain_lines(real) if json.loads(line)["uuid"].encode() in base]
        assert self.chain_lines(made) == copied
        assert len(copied) == 17

    def chain_lines(self, data: bytes) -> list[bytes]:
        return [re.sub(rb'"promptId":"[^"]*"', b'"promptId":""', line) for line in data.splitlines() if b'"parentUuid"' in line]

    @pytest.mark.parametrize("case", ALL, ids=name_of)
    def test_every_recorded_chain_is_resumed_from_its_fork(self, home: Home, case: Case) -> None:
        data = case.path.read_bytes()
        expected = current.resume(data)
        home.write(data)
        home.sync()
        with home.open() as index:
            if not expected:
                with pytest.raises(InvalidRequest, match="no conversation"):
                    index.fork(SESSION)
                return
            new = index.fork(SESSION)
            assert [entry.uuid for entry in index.resume(new).entries] == expected
        assert current.resume(home.path(new).read_bytes()) == expected

    @settings(max_examples=60)
    @given(ordinary_transcripts())
    def test_ordinary_chains_are_resumed_from_their_fork(self, lab: Lab, data: bytes) -> None:
        """Thinking aside: of a reply whose other lines were dropped it is not copied, so it is dropped from the fork as well."""
        home = lab.home("one")
        path = home.write(data, WRITTEN)
        home.sync()
        if expected := current.resume(data):
            records = {line["uuid"]: line for line in map(json.loads, data.splitlines()) if "uuid" in line}
            boundaries = {uuid for uuid, line in records.items() if line.get("subtype") == "compact_boundary"}
            assume(boundaries.isdisjoint(expected[1:]))  # a compaction that another one preserves cuts the fork off as well
            with home.open() as index:
                new = index.fork(WRITTEN)
            found = current.resume(home.path(new).read_bytes()) or []
            thinking = {uuid for uuid in expected if only_thinks(records[uuid])}
            assert [uuid for uuid in found if uuid not in thinking] == [uuid for uuid in expected if uuid not in thinking]
        assert path.read_bytes() == data

    @settings(max_examples=60)
    @given(wild_transcripts())
    def test_wild_chains_are_copied_whole(self, lab: Lab, data: bytes) -> None:
        home = lab.home("one")
        home.write(data, WRITTEN)
        home.sync()
        if expected := current.resume(data):
            with home.open() as index:
                new = index.fork(WRITTEN)
            lines = map(json.loads, home.path(new).read_bytes().splitlines())
            assert [line["uuid"] for line in lines if "parentUuid" in line] == expected

    def test_title_tag_and_mode_go_along_and_a_given_title_wins(self, home: Home) -> None:
        log = Log().turns(1)
        log.title("Old")
        log.title("Title")
        log.about("tag", tag="reports")
        log.about("mode", mode="plan")
        log.about("last-prompt", lastPrompt="x", leafUuid=uuid(1))
        log.about("content-replacement", replacements=[{"a": 1}])
        log.turns(1)
        found = forked(home, log, title="  Another way ")
        assert [line["type"] for line in found[:5]] == ["custom-title", "tag", "mode", "content-replacement", "custom-title"]
        assert [line.get("customTitle") for line in found if line["type"] == "custom-title"] == ["Title", "Another way"]
        assert len({line["sessionId"] for line in found} - {SESSION}) == 1
        with home.open() as index:
            new = index.session("Another way")
            assert (new.tag, index.resume(new.id).state.mode) == ("reports", "plan")

    def test_up_to_a_message(self, home: Home) -> None:
        assert [line["uuid"] for line in forked(home, Log().turns(3), up_to=uuid(4))] == [uuid(at) for at in range(1, 5)]
        with home.open() as index, pytest.raises(NotFound, match="no message"):
            index.fork(SESSION, up_to=uuid(99))

    def test_responses_are_counted_once(self, home: Home) -> None:
        forked(home, Log().turns(3))
        with home.open() as index:
            assert rows(index, "SELECT count(*), sum(output_tokens) FROM responses") == [(3, 6)]

    def test_a_session_that_is_gone_is_forked_from_the_archive(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        home.sync()
        path.unlink()
        path.parent.rmdir()
        home.sync()
        with home.open() as index:
            new = index.fork(SESSION)
            assert [entry.uuid for entry in index.resume(new).entries] == [uuid(1), uuid(2)]
        assert not path.exists()


class TestLikeTheSdk:
    def test_new_uuids_and_where_they_are_from(self, home: Home) -> None:
        log = Log(common={"teamName": "red", "slug": "s", "sourceToolAssistantUUID": "x"}).turns(2)
        found = forked(home, log, way="sdk")
        lines = found[:-1]
        new = [line["uuid"] for line in lines]
        assert len({*new} | {uuid(at) for at in range(1, 5)}) == 8
        assert [line["parentUuid"] for line in lines] == [None, *new[:-1]]
        assert [line["forkedFrom"] for line in lines] == [{"sessionId": SESSION, "messageUuid": uuid(at)} for at in range(1, 5)]
        assert [line["timestamp"] for line in lines[:-1]] == [stamp(at) for at in range(3)]
        assert lines[-1]["timestamp"] > stamp(100)
        assert not any({"teamName", "slug", "sourceToolAssistantUUID"} & line.keys() for line in lines)
        assert (found[-1]["type"], found[-1]["customTitle"]) == ("custom-title", "word 1 ask 0 (fork)")

    def test_all_branches_go_along_sidechains_do_not(self, home: Home) -> None:
        log = Log().turns(1)
        log.user("other way", parentUuid=uuid(1))
        log.user("aside", isSidechain=True)
        found = forked(home, log, way="sdk")
        assert [line.get("forkedFrom", {}).get("messageUuid") for line in found] == [uuid(1), uuid(2), uuid(3), None]
        assert found[2]["parentUuid"] == found[0]["uuid"]

    def test_progress_is_dropped_and_bridged(self, home: Home) -> None:
        log = Log()
        log.user()
        log.chain("progress")
        log.chain("progress")
        log.assistant()
        found = forked(home, log, way="sdk")
        assert [line["type"] for line in found] == ["user", "assistant", "custom-title"]
        assert found[1]["parentUuid"] == found[0]["uuid"]

    def test_progress_in_a_circle_comes_to_an_end(self, home: Home) -> None:
        log = Log()
        log.user(parentUuid=uuid(2))
        log.chain("progress", parentUuid=uuid(3))
        log.chain("progress", parentUuid=uuid(2))
        assert forked(home, log, way="sdk")[0]["parentUuid"] is None

    def test_a_cut_is_by_place_in_the_file(self, home: Home) -> None:
        log = Log().turns(1)
        log.user("other way", parentUuid=uuid(1))
        found = forked(home, log, way="sdk", up_to=uuid(2), title="T")
        assert [line["type"] for line in found] == ["user", "assistant", "custom-title"]
        assert found[-1]["customTitle"] == "T"
        with home.open() as index, pytest.raises(NotFound, match="no message"):
            index.fork(SESSION, way="sdk", up_to=uuid(99))

    def test_replaced_contents_become_one_line(self, home: Home) -> None:
        log = Log().turns(1)
        for at in (1, 2):
            log.about("content-replacement", replacements=[{"at": at}])
        log.about("content-replacement", replacements=[{"at": 3}], sessionId="another")
        found = forked(home, log, way="sdk")
        assert found[-2]["replacements"] == [{"at": 1}, {"at": 2}]

    def test_a_compaction_keeps_its_logical_parent(self, home: Home) -> None:
        log = Log().turns(1)
        log.chain("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=uuid(2))
        found = forked(home, log, way="sdk")
        assert (found[2]["parentUuid"], found[2]["logicalParentUuid"]) == (None, found[1]["uuid"])

    def test_the_chain_is_the_same_also_where_readers_stumble(self, home: Home) -> None:
        log = Log()
        log.user("a line\u2028in a line\x85and\u2029another")
        log.assistant([text("look"), call("t1"), call("t2")], id="msg")
        log.user([result("t1")], parentUuid=uuid(2))
        log.user([result("t2")], parentUuid=uuid(2))
        log.raw(b'{"type":"user","uuid":"torn')
        log.assistant("an answer with \xe9 and \ud83d")
        home.write(log.data.replace("é".encode(), b"\xe9"))
        home.sync()
        with home.open() as index:
            new = index.fork(SESSION, way="sdk")
            made = [line for line in map(json.loads, index.lines(new)) if "forkedFrom" in line]
            origin = {line["uuid"]: line["forkedFrom"]["messageUuid"] for line in made}
            chain = [origin[entry.uuid] for entry in index.resume(new).entries]
            assert chain == [entry.uuid for entry in index.resume(SESSION).entries]
            assert len(chain) == 5

    @pytest.mark.parametrize("case", ALL, ids=name_of)
    def test_every_recorded_session_is_forked_as_the_sdk_does(
        self, home: Home, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Byte marks, lines that are cut elsewhere than at their end, and glued ones aside, which the SDK's reader loses."""
        data = case.path.read_bytes()
        told = data.decode("utf-8", "replace")
        if len(told.splitlines()) != len(told.rstrip("\n").split("\n")) or told.startswith("\ufeff") or "}{" in told:
            return
        cwd = home.root / "shop"
        cwd.mkdir(parents=True)
        path = home.write(data, SESSION, key=project_key(cwd))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.root))
        home.sync()
        with home.open() as index:
            try:
                theirs = path.with_name(f"{sdk.fork_session(SESSION, str(cwd)).session_id}.jsonl")
            except ValueError:
                with pytest.raises(InvalidRequest):
                    index.fork(SESSION, way="sdk")
                return
            ours = path.with_name(f"{index.fork(SESSION, way='sdk')}.jsonl")
            assert self.told(ours, path.stat().st_size) == self.told(theirs, path.stat().st_size)
            index.sync()
            one, other = (index.resume(str(file)) for file in (ours, theirs))
            assert len(one.entries) == len(other.entries)

    def told(self, path: Path, size: int) -> list[Json]:
        """The lines of a fork, with the uuids of the session, and without what is new each time.

        The SDK looks for titles in the first and the last 64 KiB alone.
        """
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        known = {line["uuid"]: line["forkedFrom"]["messageUuid"] for line in lines if "forkedFrom" in line}
        changed = {"sessionId": "", "timestamp": ""} | ({"customTitle": ""} if size > 1 << 16 else {})
        uuids = ("uuid", "parentUuid", "logicalParentUuid")
        return [
            line
            | {name: value for name, value in changed.items() if name in line}
            | {name: known.get(line[name]) for name in uuids if name in line}
            for line in lines
        ]

    def test_a_long_prompt_is_cut_to_a_title(self, home: Home) -> None:
        log = Log()
        log.user("word " * 300)
        assert forked(home, log, way="sdk")[-1]["customTitle"] == f"{('word ' * 40).rstrip()}… (fork)"

    def test_nothing_to_fork_leaves_nothing(self, home: Home) -> None:
        log = Log()
        log.chain("progress")
        log.title("Only a title")
        home.write(log)
        home.sync()
        with home.open() as index:
            for way in ("client", "sdk"):
                with pytest.raises(InvalidRequest):
                    index.fork(SESSION, way=way)
            with pytest.raises(InvalidRequest, match="no way 'x'"):
                index.fork(SESSION, way="x")  # type: ignore[arg-type]
        assert [path.name for path in Path(home.path(SESSION)).parent.iterdir()] == [f"{SESSION}.jsonl"]
