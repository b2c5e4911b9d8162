"""The Agent SDK's store over transcripts: its own conformance suite, and what that does not catch."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk._internal.session_resume import build_mirror_batcher, materialize_resume_session
from claude_agent_sdk.testing import run_session_store_conformance
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from tests.builders import CASES, CWD, KEY, Home, Json, Log, database_of, empty_database, session_id, uuid
from transcripts.api import Index
from transcripts.errors import InvalidRequest, NotFound, NotWritten
from transcripts.files import writer
from transcripts.files.place import project_key
from transcripts.index import prepare
from transcripts.index.schema import chunks, entries, files, forgotten, store_summaries
from transcripts.interfaces import held
from transcripts.interfaces.session_store import TranscriptStore
from transcripts.sessions import storing

SID = session_id(1)
T = TypeVar("T")
OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")
HOSTILE = [
    "", ".", "..", "/", "../../x", "a/b", "\\", "C:\\x", "\0", "x\n", "x.jsonl", "agent-1", "subagents", "tool-results",
    "projects", "CON", "x ", "x.", "é", "e\u0301", "👩‍💻", "\ud83d", "A", "a", SID.upper(), "-", "_", "%2e", "+a", "~",
    "y" * 300, "y" * 301, "É" * 90,
]  # fmt: skip


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def key(project: str = KEY, session: str = SID, subpath: str | None = None) -> sdk.SessionKey:
    named: sdk.SessionKey = {"project_key": project, "session_id": session}
    return named if subpath is None else {**named, "subpath": subpath}


def batch(*found: Json) -> list[sdk.SessionStoreEntry]:
    return cast("list[sdk.SessionStoreEntry]", list(found))


def records(log: Log) -> list[sdk.SessionStoreEntry]:
    return batch(*map(json.loads, log.lines))


def opened(home: Home) -> TranscriptStore:
    return TranscriptStore(home.projects, home.db)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Each test opens its databases anew."""
    yield
    held.close_held()


@pytest.fixture
def store(home: Home) -> TranscriptStore:
    empty_database(home.db)
    return opened(home)


def number(home: Home, table: Any) -> int:
    with Index.open(home.db, fresh=False) as index, database_of(index).read() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def resumed(index: Index, session: str) -> list[str | None]:
    return [entry.uuid for entry in index.resume(session).entries]


class TestConformance:
    def test_all_fourteen_contracts_hold(self, tmp_path: Path) -> None:
        made: list[TranscriptStore] = []

        def make() -> TranscriptStore:
            folder = tmp_path / str(len(made))
            made.append(TranscriptStore(folder / "projects", empty_database(folder / "index.db")))
            return made[-1]

        run(run_session_store_conformance(make))
        assert len(made) == 15  # one a contract, and one to ask what there is

    @pytest.mark.parametrize("method", OPTIONAL)
    def test_nothing_is_left_out(self, method: str) -> None:
        assert getattr(TranscriptStore, method) is not getattr(sdk.SessionStore, method)


class TestEntries:
    def test_an_entry_whose_uuid_stands_is_not_written_again(self, store: TranscriptStore, home: Home) -> None:
        first = batch({"type": "x", "uuid": "a", "n": 1}, {"type": "user", "uuid": "b"}, {"type": "x", "uuid": "a", "n": 2})
        run(store.append(key(), first))
        run(store.append(key(), batch({"type": "x", "uuid": "b", "n": 3}, {"type": "x", "uuid": "c"})))
        held.close_held()
        run(opened(home).append(key(), batch({"type": "user", "uuid": "a", "n": 4}, {"type": "x", "uuid": "d"})))
        assert run(store.load(key())) == [*first[:2], {"type": "x", "uuid": "c"}, {"type": "x", "uuid": "d"}]

    def test_a_uuid_counts_within_one_transcript(self, store: TranscriptStore) -> None:
        same = batch({"type": "x", "uuid": "a"})
        places = [key(), key(subpath="subagents/agent-1"), key(session=session_id(2)), key(project="-other")]
        for place in [*places, *places]:
            run(store.append(place, same))
        assert [run(store.load(place)) for place in places] == [same] * 4

    def test_entries_without_uuid_are_all_kept(self, store: TranscriptStore) -> None:
        same = batch(
            {"type": "tag", "tag": "a"}, {"type": "x", "uuid": None}, {"type": "x", "uuid": ""}, {"type": "x", "uuid": 7}
        )
        run(store.append(key(), same))
        run(store.append(key(), same))
        assert run(store.load(key())) == [*same, *same]

    def test_fields_come_back_as_they_were_in_their_order(self, store: TranscriptStore, lab: Any) -> None:
        sessions = iter(range(10, 10_000))
        values = st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        )

        @given(st.lists(st.dictionaries(st.text(), values, max_size=4), min_size=1, max_size=4))
        def proved(some: list[Json]) -> None:
            given = batch(*({**record, "type": "x", "uuid": str(at)} for at, record in enumerate(some)))
            place = key(session=session_id(next(sessions)))
            run(store.append(place, given))
            assert json.dumps(run(store.load(place))) == json.dumps(given)

        proved()

    @pytest.mark.parametrize("words", ["\ud83d cut", "a\u2028b\u0085c", "a\x00b", "\r\n", "\ufeff", "x" * 1_500_000])
    def test_odd_texts_come_back(self, store: TranscriptStore, words: str) -> None:
        given = batch({"type": "user", "uuid": uuid(1), "message": {"role": "user", "content": words}}, {"type": "x", words: 1})
        run(store.append(key(), given))
        assert run(store.load(key())) == given

    @pytest.mark.parametrize("entry", [[1], "text", {"type": "x", "n": float("nan")}, {"type": "x", "n": object()}])
    def test_what_is_no_entry_is_refused_before_anything_is_written(self, store: TranscriptStore, home: Home, entry: Any) -> None:
        with pytest.raises(InvalidRequest):
            run(store.append(key(), [*batch({"type": "x", "uuid": "a"}), entry]))
        assert not home.projects.exists()
        run(store.append(key(), batch({"type": "x", "uuid": "a"})))
        assert run(store.load(key())) == [{"type": "x", "uuid": "a"}]

    def test_an_append_of_nothing_makes_no_session(self, store: TranscriptStore, home: Home) -> None:
        run(store.append(key(), []))
        assert run(store.list_sessions(KEY)) == []
        assert not home.projects.exists()

    def test_a_line_that_the_client_has_not_ended_is_not_swallowed(self, store: TranscriptStore, home: Home) -> None:
        path = home.write(b'{"type":"x","uuid":"a"}')
        run(store.append(key(), batch({"type": "x", "uuid": "a", "n": 2}, {"type": "x", "uuid": "b"})))
        assert run(store.load(key())) == [{"type": "x", "uuid": "a"}, {"type": "x", "uuid": "b"}]
        assert path.read_bytes().startswith(b'{"type":"x","uuid":"a"}\n')

    def test_a_transcript_that_was_deleted_and_written_anew_is_read_anew(self, store: TranscriptStore, home: Home) -> None:
        run(store.append(key(), batch({"type": "x", "uuid": "a"}, {"type": "x", "uuid": "b"})))
        home.path(SID).write_bytes(b'{"type":"x","uuid":"c"}\n' * 9)
        run(store.append(key(), batch({"type": "x", "uuid": "a"}, {"type": "x", "uuid": "c"})))
        assert run(store.load(key())) == [*batch({"type": "x", "uuid": "c"}) * 9, {"type": "x", "uuid": "a"}]


class TestKeys:
    def test_the_root_is_laid_out_as_the_clients_folder(self, store: TranscriptStore, home: Home) -> None:
        for subpath in (None, "subagents/agent-a1", "subagents/workflows/run-1/agent-a2"):
            run(store.append(key(subpath=subpath), batch({"type": "x"})))
        found = sorted(str(path.relative_to(home.projects)) for path in home.projects.rglob("*") if path.is_file())
        below = [f"{KEY}/{SID}/subagents/agent-a1.jsonl", f"{KEY}/{SID}/subagents/workflows/run-1/agent-a2.jsonl"]
        assert found == sorted([f"{KEY}/{SID}.jsonl", *below])
        assert all(path.stat().st_mode & 0o077 == 0 for path in home.projects.rglob("*"))

    def test_hostile_ids_are_apart_come_back_and_stay_below_the_root(self, store: TranscriptStore, home: Home) -> None:
        places = [key(project=name) for name in HOSTILE] + [key(session=name) for name in HOSTILE]
        places += [key(subpath=name) for name in HOSTILE if name] + [key("..", "..", "../..")]
        for at, place in enumerate(places):
            run(store.append(place, batch({"type": "x", "n": at})))
        assert [run(store.load(place)) for place in places] == [[{"type": "x", "n": at}] for at in range(len(places))]
        assert {one["session_id"] for one in run(store.list_sessions(KEY))} == set(HOSTILE)
        for name in HOSTILE:
            assert [one["session_id"] for one in run(store.list_sessions(name))] == [SID]
        assert run(store.list_subkeys({"project_key": KEY, "session_id": SID})) == sorted(set(HOSTILE) - {""})
        below = list(home.projects.rglob("*"))
        assert {path.name for path in home.root.iterdir()} == {"projects"}
        assert len({str(path).casefold() for path in below}) == len(below)
        with Index.open(home.db, fresh=False) as index:
            assert len(index.sessions()) == 2 * len(HOSTILE)  # the others belong to a session that was never begun
            assert index.damage() == []
        for place in places:
            run(store.delete(place))
        assert list(home.projects.rglob("*.jsonl")) == []
        assert number(home, files) == 0

    @pytest.mark.parametrize("method", ["load", "delete", "append"])
    def test_an_empty_subpath_is_refused_and_never_taken_for_the_session(self, store: TranscriptStore, method: str) -> None:
        run(store.append(key(), batch({"type": "x"})))
        with pytest.raises(InvalidRequest, match="empty subpath"):
            run(getattr(store, method)(key(subpath=""), *([batch({"type": "y"})] if method == "append" else [])))
        assert run(store.load(key())) == [{"type": "x"}]

    def test_an_id_that_is_no_text_is_refused(self, store: TranscriptStore) -> None:
        with pytest.raises(InvalidRequest, match="texts"):
            run(store.append(key(session=cast(str, 7)), batch({"type": "x"})))


class TestIndex:
    def test_what_is_appended_is_found_in_the_same_call(self, store: TranscriptStore, home: Home) -> None:
        log = Log().turns(3)
        log.title("Deliveries")
        run(store.append(key(), records(log)))
        run(
            store.append(
                key(subpath="subagents/agent-a1"), records(Log(first=50, common={"isSidechain": True}).turns(1, "helper"))
            )
        )
        with Index.open(home.db, fresh=False) as index:
            (session,) = index.sessions()
            assert (session.id, session.title, session.message_count, session.agent_count) == (SID, "Deliveries", 6, 1)
            assert len(index.search("tell").hits) == 4
            assert index.search("tell").waiting == 0
            assert resumed(index, SID) == [uuid(at) for at in range(1, 7)]
            assert index.damage() == []

    def test_appends_of_any_size_make_the_database_that_one_import_makes(self, store: TranscriptStore, home: Home) -> None:
        given = records(_varied())
        chance = random.Random(1)
        at = 0
        while at < len(given):
            size = chance.choice([1, 1, 2, 7])
            run(store.append(key(), given[at : at + size]))
            at += size
        with Index.open(home.db, fresh=False) as index:
            assert index.damage() == []
            (one,) = index.sessions()
        with Index.open(empty_database(home.db.parent / "other.db"), fresh=False) as index:
            index.sync([home.projects])
            assert index.sessions() == [one]

    def test_a_known_transcript_is_neither_looked_for_nor_read_again(
        self, store: TranscriptStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Log().turns(2000)
        run(store.append(key(), records(log)))
        log.lines.clear()
        log.turns(3)
        read: list[int] = []
        pread = os.pread

        def counted(descriptor: int, length: int, offset: int) -> bytes:
            data = pread(descriptor, length, offset)
            read.append(len(data))
            return data

        def refused(*_args: Any) -> Any:
            raise AssertionError("a folder was looked at")

        monkeypatch.setattr(os, "pread", counted)
        monkeypatch.setattr(os, "scandir", refused)
        monkeypatch.setattr(os, "listdir", refused)
        run(store.append(key(), records(log)))
        assert 0 < sum(read) < 10 * len(log.data) + 30_000  # digests of the file's edges among it

    def test_a_busy_database_loses_nothing_and_is_brought_up_by_the_next_append(
        self, store: TranscriptStore, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(storing, "PATIENCE", 0.1)
        log = Log().turns(3)
        with FileLock(f"{home.db}.lock"):
            run(store.append(key(), records(log)[:4]))
        assert run(store.load(key())) == records(log)[:4]
        assert number(home, entries) == 0
        run(store.append(key(), records(log)[4:]))
        assert number(home, entries) == 6

    def test_where_many_texts_wait_an_append_leaves_them_to_a_sync(
        self, store: TranscriptStore, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Home(tmp_path / "other", home.db)
        other.write(Log(session_id(2), first=5000).turns(600))
        with Index.open(home.db, fresh=False) as index:
            index.sync([other.projects], texts=False)
            run(store.append(key(), records(Log().turns(1, "store"))))
            assert index.search("store").waiting == 1202
            index.sync([other.projects])
            assert len(index.search("store").hits) == 2

    def test_a_write_that_fails_leaves_the_batch_to_be_given_again(
        self, store: TranscriptStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_args: Any) -> None:
            raise OSError(28, "No space left on device")

        given = batch({"type": "x", "uuid": "a"})
        with monkeypatch.context() as patched:
            patched.setattr(writer, "_write", full)
            with pytest.raises(NotWritten):
                run(store.append(key(), given))
        run(store.append(key(), given))
        assert run(store.load(key())) == given

    def test_a_database_that_was_removed_is_made_again_from_the_files(self, store: TranscriptStore, home: Home) -> None:
        run(store.append(key(), records(Log().turns(2))))
        for path in home.db.parent.iterdir():
            path.unlink()
        run(store.append(key(), records(Log().turns(3))))
        with Index.open(home.db, fresh=False) as index:
            assert index.session(SID).message_count == 6


class TestDelete:
    def test_a_session_goes_with_file_rows_bytes_and_search_and_may_come_again(self, store: TranscriptStore, home: Home) -> None:
        log = Log().turns(3)
        run(store.append(key(), records(log)))
        run(store.append(key(subpath="subagents/agent-a1"), batch({"type": "x"})))
        run(store.list_session_summaries(KEY))
        run(store.delete(key()))
        assert [path for path in home.projects.rglob("*") if path.is_file()] == []
        for table in (files, chunks, entries, forgotten, store_summaries):
            assert number(home, table) == 0
        with Index.open(home.db, fresh=False) as index:
            assert not index.search("tell").hits
            with pytest.raises(NotFound):
                index.session(SID)
        run(store.append(key(), records(log)))
        assert run(store.load(key())) == records(log)
        with Index.open(home.db, fresh=False) as index:
            assert len(index.search("tell").hits) == 3
            assert index.damage() == []

    def test_a_subpath_goes_alone(self, store: TranscriptStore, home: Home) -> None:
        for subpath in (None, "subagents/agent-a1", "subagents/agent-a2"):
            run(store.append(key(subpath=subpath), batch({"type": "x", "of": subpath})))
        run(store.delete(key(subpath="subagents/agent-a1")))
        assert number(home, files) == number(home, chunks) == 2
        assert run(store.load(key())) is not None

    def test_a_linked_folder_is_not_followed(self, store: TranscriptStore, home: Home, tmp_path: Path) -> None:
        run(store.append(key(), batch({"type": "x"})))
        notes = tmp_path / "aside" / "subagents" / "agent-a1.jsonl"
        notes.parent.mkdir(parents=True)
        notes.write_bytes(b"{}\n")
        home.path(SID).with_suffix("").symlink_to(tmp_path / "aside")
        run(store.delete(key()))
        assert notes.exists() and not home.path(SID).exists()

    def test_what_another_process_has_removed_from_the_disk_leaves_the_database(self, store: TranscriptStore, home: Home) -> None:
        run(store.append(key(), batch({"type": "x"})))
        shutil.rmtree(home.projects)
        run(store.delete(key()))
        assert number(home, files) == number(home, chunks) == 0


class TestSummaries:
    def test_they_are_what_the_sdks_fold_makes_of_what_stands(self, store: TranscriptStore) -> None:
        log = _varied()
        log.title("First")
        given = records(log)
        for at in range(0, len(given), 3):
            run(store.append(key(), given[max(0, at - 2) : at + 3]))  # each batch begins with lines that stand
        run(store.append(key(), records(Log().turns(1))))
        (told,) = run(store.list_session_summaries(KEY))
        stands = run(store.load(key())) or []
        assert told["data"] == sdk.fold_session_summary(None, key(), stands)["data"]
        assert told["mtime"] == run(store.list_sessions(KEY))[0]["mtime"]

    def test_a_title_that_comes_again_does_not_replace_a_later_one(self, store: TranscriptStore) -> None:
        old = batch({"type": "custom-title", "customTitle": "Old", "uuid": uuid(1)})
        new = batch({"type": "custom-title", "customTitle": "New", "uuid": uuid(2)})
        for some in (old, new, old):
            run(store.append(key(), some))
        assert run(store.list_session_summaries(KEY))[0]["data"]["custom_title"] == "New"

    def test_lines_that_others_wrote_are_folded_in(self, store: TranscriptStore, home: Home) -> None:
        run(store.append(key(), batch({"type": "custom-title", "customTitle": "Old"})))
        writer.append(str(home.path(SID)), [{"type": "custom-title", "customTitle": "New"}])
        home.write(b'{"type":"custom-title","customTitle":"Other"}\n', session_id(2))
        told = {one["session_id"]: one["data"]["custom_title"] for one in run(store.list_session_summaries(KEY))}
        assert told == {SID: "New", session_id(2): "Other"}

    def test_a_time_that_the_fold_cannot_take_costs_only_its_entry(self, store: TranscriptStore) -> None:
        odd = {"type": "user", "timestamp": "0001-01-01T00:00:00+14:00"}
        run(store.append(key(), batch(odd, {"type": "x", "cwd": CWD}, {"type": "x", "timestamp": "0001-01-01T00:00:00"})))
        assert run(store.list_session_summaries(KEY))[0]["data"]["cwd"] == CWD

    def test_the_sdks_own_lists_agree_with_those_over_its_memory_store(self, store: TranscriptStore, tmp_path: Path) -> None:
        memory = sdk.InMemorySessionStore()
        project = project_key(tmp_path)
        for at in range(1, 4):
            log = Log(session_id(at), first=at * 1000, start=at * 100).turns(at)
            for one in (store, memory):
                run(one.append(key(project, log.session), records(log)))
        asks: list[Callable[[sdk.SessionStore], Coroutine[Any, Any, Sequence[object]]]] = [
            lambda one: sdk.list_sessions_from_store(one, directory=str(tmp_path)),
            lambda one: sdk.get_session_messages_from_store(one, session_id(2), directory=str(tmp_path)),
        ]
        for ask in asks:
            ours, theirs = ([_timeless(item) for item in run(ask(one))] for one in (store, memory))
            assert sorted(ours, key=str) == sorted(theirs, key=str)
            assert ours


class TestOrder:
    def test_appends_that_overlap_land_in_the_order_of_their_calls(self, store: TranscriptStore) -> None:
        async def together() -> None:
            await asyncio.gather(*(store.append(key(), batch({"type": "x", "n": at})) for at in range(60)))

        run(together())
        assert run(store.load(key())) == [{"type": "x", "n": at} for at in range(60)]

    def test_an_append_whose_caller_gave_up_still_comes_before_the_next(
        self, store: TranscriptStore, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def impatient() -> None:
            with writer.locked(str(home.path(SID))):
                for at in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(store.append(key(), batch({"type": "x", "n": at})), 0.05)
            await store.append(key(), batch({"type": "x", "n": 3}))

        run(impatient())
        assert run(store.load(key())) == [{"type": "x", "n": at} for at in range(4)]

    def test_the_event_loop_goes_on_while_a_transcript_is_held_by_another(self, store: TranscriptStore, home: Home) -> None:
        async def meanwhile() -> bool:
            with writer.locked(str(home.path(SID))):
                waiting = asyncio.ensure_future(store.append(key(), batch({"type": "x"})))
                await store.append(key(session=session_id(2)), batch({"type": "x"}))
                done = waiting.done()
            await waiting
            return done

        assert run(meanwhile()) is False


class TestProcesses:
    def start(self, mode: str, home: Home, batches: Sequence[tuple[sdk.SessionKey, list[Any]]]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.storing", mode, str(home.projects), str(home.db)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in batches))
        process.stdin.close()
        return process

    def test_two_processes_lose_nothing_and_write_nothing_twice(self, store: TranscriptStore, home: Home) -> None:
        shared = records(Log().turns(15))
        lists = []
        for name in ("a", "b"):
            own: list[list[Any]] = [[{"type": "x", "of": name, "n": at, "words": name * (at * 997 % 20_000)}] for at in range(30)]
            lists.append([(key(), [*own[at], shared[at]]) for at in range(30)])
        processes = [self.start("append", home, batches) for batches in lists]
        assert [process.wait(120) for process in processes] == [0, 0]
        found = run(store.load(key())) or []
        for name in ("a", "b"):
            assert [entry.get("n") for entry in found if entry.get("of") == name] == list(range(30))
        assert sorted(str(entry["uuid"]) for entry in found if "uuid" in entry) == [uuid(at) for at in range(1, 31)]
        with Index.open(home.db, fresh=False) as index:
            assert index.session(SID).message_count == 30
            assert index.damage() == []

    @pytest.mark.parametrize("mode", ["within", "between"])
    def test_a_batch_that_a_kill_cut_can_be_given_again(self, store: TranscriptStore, home: Home, mode: str) -> None:
        before, given = records(Log().turns(1)), records(Log().turns(20))[2:]
        run(store.append(key(), before))
        assert self.start(mode, home, [(key(), given)]).wait(60) == -9
        assert number(home, entries) == 2
        held.close_held()
        again = opened(home)
        imported = number(home, entries)  # what stands in the file
        assert imported == 40 if mode == "between" else 2 < imported < 40
        run(again.append(key(), given))
        assert run(again.load(key())) == [*before, *given]
        with Index.open(home.db, fresh=False) as index:
            assert index.session(SID).message_count == 40
            assert index.damage() == []
            assert len(index.search("tell", limit=50).hits) == 20

    def test_lists_need_no_database_that_is_up_to_date(self, store: TranscriptStore, home: Home) -> None:
        log = Log().turns(2)
        log.title("Not imported")
        assert self.start("between", home, [(key(), records(log))]).wait(60) == -9
        assert [one["session_id"] for one in run(store.list_sessions(KEY))] == [SID]
        assert run(store.list_session_summaries(KEY))[0]["data"]["custom_title"] == "Not imported"


class TestRoundTrip:
    """What was recorded through the store is materialised by the SDK's own machinery, and resumed with the same chain."""

    FILES = sorted((CASES / "genuine" / "projects").glob("*/*.jsonl"))

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_a_genuine_session(self, store: TranscriptStore, home: Home, tmp_path: Path, path: Path) -> None:
        with Index.open(empty_database(tmp_path / "original.db"), fresh=False) as index:
            index.sync([path])
            expected = resumed(index, path.stem)
        cwd = tmp_path / "shop"
        cwd.mkdir()
        chance = random.Random(path.stem)
        found = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]

        async def recorded() -> None:
            mirror = build_mirror_batcher(store, None, {"CLAUDE_CONFIG_DIR": str(tmp_path / "client")}, _no_error, "eager")
            file = tmp_path / "client" / "projects" / project_key(cwd) / path.name
            at = 0
            while at < len(found):
                size = chance.randint(1, 9)
                mirror.enqueue(str(file), found[at : at + size])
                at += size
            await mirror.close()

        run(recorded())
        for options in ({"resume": path.stem}, {"continue_conversation": True}):
            config = run(_materialised(store, cwd, **options))
            with Index.open(empty_database(tmp_path / f"{len(options)}{next(iter(options))}.db"), fresh=False) as index:
                index.sync([config])
                assert resumed(index, path.stem) == expected
            shutil.rmtree(config)
        with Index.open(home.db, fresh=False) as index:
            assert resumed(index, path.stem) == expected

    def test_sub_agents_come_along(self, store: TranscriptStore, tmp_path: Path) -> None:
        project = project_key(tmp_path)
        agent = records(Log(first=50, common={"isSidechain": True, "agentId": "a1"}).turns(2))
        meta = batch({"type": "agent_metadata", "agentType": "helper", "toolUseId": "toolu_1"})
        run(store.append(key(project), records(Log().turns(2))))
        run(store.append(key(project, subpath="subagents/agent-a1"), [*agent, *meta]))
        config = run(_materialised(store, tmp_path, resume=SID))
        with Index.open(empty_database(tmp_path / "materialised.db"), fresh=False) as index:
            index.sync([config])
            (one,) = index.subagents(SID)
            assert [entry.uuid for entry in index.resume(SID, agent=one.id).entries] == [uuid(at) for at in range(50, 54)]
        shutil.rmtree(config)


async def _materialised(store: TranscriptStore, cwd: Path, **options: Any) -> Path:
    found = await materialize_resume_session(sdk.ClaudeAgentOptions(session_store=store, cwd=cwd, **options))
    assert found is not None
    return found.config_dir


async def _no_error(key: sdk.SessionKey | None, error: str) -> None:
    raise AssertionError(f"{key}: {error}")


def _timeless(item: Any) -> Json:
    return {name: value for name, value in vars(item).items() if name != "last_modified"}


def _varied() -> Log:
    """Calls with results that come later, late and missing parents, progress, repeated ids, and lines about the session."""
    log = Log()
    for at in range(12):
        log.user(f"prompt {at}")
        log.assistant([{"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": "ls"}}], id=f"m{at}", tokens=at)
        if at % 3:
            log.user([{"type": "tool_result", "tool_use_id": f"t{at - 1}", "content": "done"}])
        if at % 4 == 1:
            log.chain("progress", data={})
            log.user("a child", parentUuid=uuid(900 + at))  # its parent comes later, or never
        if at % 4 == 3:
            tip = log.tip
            log.user("late", uuid=uuid(900 + at - 2), parentUuid=uuid(1))
            log.tip = tip
        if at % 5 == 2:
            log.title(f"Title {at}")
            log.about("tag", tag=f"tag{at}")
            log.about("last-prompt", lastPrompt=f"prompt {at}", leafUuid=log.tip)
    return log


def test_the_example_of_the_readme_runs(apart: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    exec(readme.partition("<!-- example: store -->\n```python\n")[2].partition("```")[0], {})
    assert "Is the report empty?" in capsys.readouterr().out
    assert list((apart / "agents" / "projects").rglob("*.jsonl"))


def test_importer_batches_are_larger_than_what_the_sdk_flushes() -> None:
    """An append of the mirror is one transaction: it flushes at most a mebibyte and what one frame holds."""
    assert prepare.BATCH_BYTES > 1024 * 1024
