"""The Agent SDK's session functions over the index: the SDK's answers, but for the differences that are named here."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import claude_agent_sdk as sdk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    CASES,
    Home,
    Json,
    Log,
    call,
    dumps,
    empty_database,
    millis,
    result,
    session_id,
    stamp,
    uuid,
)
from tests.test_models import ALL
from transcripts.api import Index
from transcripts.files.place import project_key
from transcripts.interfaces import held
from transcripts.interfaces import sdk_sessions as ours

SID = session_id(1)
FUNCTIONS = sorted(ours.__all__)
WINDOW = 64 * 1024  # bytes at both ends of a file, which are all that the SDK looks at for a list


@contextmanager
def looking_at(home: Home) -> Iterator[Home]:
    """Within this block both sides take their sessions from this folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CLAUDE_CONFIG_DIR", str(home.root))
        patched.setenv("TRANSCRIPTS_DB", str(home.db))
        yield home
        held.close_held()


@pytest.fixture
def client(home: Home) -> Iterator[Home]:
    """A client's folder that both sides take their sessions from."""
    home.projects.mkdir(parents=True)
    empty_database(home.db)
    with looking_at(home):
        yield home


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A project's directory."""
    path = tmp_path.resolve() / "shop"
    path.mkdir()
    return path


def uuids(found: list[sdk.SessionMessage]) -> list[str]:
    return [message.uuid for message in found]


def both(session: str = SID) -> tuple[list[str], list[str]]:
    """The uuids of a session's messages: ours, and the SDK's."""
    return uuids(ours.get_session_messages(session)), uuids(sdk.get_session_messages(session))


def infos(session: str = SID) -> tuple[sdk.SDKSessionInfo, sdk.SDKSessionInfo]:
    """What is told of a session: by us, and by the SDK."""
    one, other = ours.get_session_info(session), sdk.get_session_info(session)
    assert one is not None
    assert other is not None
    return one, other


def filler(log: Log) -> None:
    """More than the SDK's window."""
    log.about("mode", mode="plan", note="x" * WINDOW)


# -- a drop-in import ----------------------------------------------------------------------------------------------------


class TestDropIn:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_function_takes_and_gives_what_the_sdks_does(self, name: str) -> None:
        assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(sdk, name))

    def test_there_are_all_that_work_on_files(self) -> None:
        stores = re.compile("_(from|via)_store$|^import_|^project_key|^create_|^fold_")
        named = [name for name in sdk.__all__ if re.search("session|subagent", name) and not stores.search(name)]
        assert sorted(name for name in named if name.islower()) == FUNCTIONS

    def test_without_the_sdk_it_says_how_to_get_it(self) -> None:
        program = "import sys; sys.modules['claude_agent_sdk'] = None; import transcripts.interfaces.sdk_sessions"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("ImportError: ")
        assert "pip install 'transcripts[sdk]'" in done.stderr

    def test_the_example_of_the_readme_runs(self, client: Home, capsys: pytest.CaptureFixture[str]) -> None:
        readme = (Path(__file__).parents[1] / "README.md").read_text()
        example = next(block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "sdk_sessions" in block)
        log = Log().turns(15)
        log.title("the orchard")
        client.write(log, key="-home-dev-orchard")
        given: dict[str, Any] = {}
        exec(example, given)
        assert capsys.readouterr().out == f"{SID} the orchard None\n"
        assert len(given["last"]) == 20

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("wrong", ["", "no-uuid", f"{SID}x", f"../{SID}"])
    def test_an_id_that_is_none_is_met_as_the_sdk_meets_it(self, client: Home, name: str, wrong: str) -> None:
        if name == "list_sessions":
            return
        more = {"rename_session": ("title",), "tag_session": ("tag",), "get_subagent_messages": ("a1",)}.get(name, ())
        assert outcome(getattr(ours, name), wrong, *more) == outcome(getattr(sdk, name), wrong, *more)
        assert outcome(getattr(ours, name), SID, *more)[0] == outcome(getattr(sdk, name), SID, *more)[0]

    def test_what_is_no_text_is_refused(self, client: Home) -> None:
        assert outcome(ours.get_session_info, 7)[0] == outcome(sdk.get_session_info, 7)[0] == "TypeError"


def outcome(function: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    try:
        return "gave", function(*given)
    except Exception as error:
        return type(error).__name__, str(error)


# -- the SDK's answers on all evidence -----------------------------------------------------------------------------------

MESSAGES_DIFFER = {
    "preserved messages and pruned lines are followed": (
        "g06 g07 g22 g2_* g4_* g5_* g19_* g20_* g22_* g25_* g26_* g29_* g32_* g34_* g38_* g41_* g43_* g46_* g47_* "
        "r34_* r52_* r53_* preserved-segment"
    ),
    "a gap is joined to the newest line before it": (
        "i1_* i4_* i5_* i7_* i8_* i10_* i11_* i16_* w11_* w12_* w19_* w22_* y_gap_0[1245]* f7_* j2_* j4_* j5_* u2_* u4_* u7_* "
        "dangling-parent compact-phantom-parent"
    ),
    "the conversation ends where the client goes on, not at the last line": (
        "d1_* d13_* e2_* q1_* r2_* r7_* r8_* r10_* r11_* r17_* r23_* r29_* r40_* r44_* r46_* r47_* r49_* r50_* "
        "t1_* t2_* x2_* x3_* x5_* x12_* x14_* two-branches"
    ),
    "a parallel reply stands in file order, its lines before the results": "a2_* a4_* b4_* v1_* v2_* v4_* v23_* parallel-tools",
    "what is whole on a damaged line counts": "l4_* l5_* l14_* l23_* glued-lines utf8-bom-crlf",
    "a line is ended by a line feed alone": "l20_*",
    "a line without a message is no message": "q4_* u5_* odd-shapes",
    "a whole number beyond 64 bits is a float, as the client has it": "byte-identical-export",
}
INFOS_DIFFER = {
    "titles": {"summary", "custom_title"},  # in the middle of the file
    "utf8-bom-crlf": {"summary", "first_prompt"},  # behind a byte order mark
    "caveat-title": {"created_at"},  # the first record is a snapshot with a time inside
    "listing": {"created_at"},
    "summary-of-other-session": {"summary"},
}


def name_of(path: Path) -> str:
    below = path.relative_to(CASES).parts
    return {"resume": path.stem, "faults": below[1], "genuine": path.parent.name.rpartition("-")[2]}[below[0]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, dict[str, str]]:
    """All recorded cases in one folder, imported; the name of each by the session id that its file got there."""
    folder, names = tmp_path_factory.mktemp("recorded"), {}
    home = Home(folder / "claude", folder / "data" / "index.db")
    for case in ALL:
        session = str(uuid5(NAMESPACE_URL, str(case.path.relative_to(CASES))))
        home.write(case.path.read_bytes(), session)
        names[session] = name_of(case.path)
    home.sync()
    return home, names


@pytest.fixture
def evidence(recorded: tuple[Home, dict[str, str]]) -> Iterator[dict[str, str]]:
    home, names = recorded
    with looking_at(home):
        yield names


class TestEvidence:
    def test_messages_are_the_sdks_but_where_it_is_named(self, evidence: dict[str, str]) -> None:
        def as_sdk(session: str) -> bool:
            told = outcome(sdk.get_session_messages, session)
            return told == ("gave", ours.get_session_messages(session))

        patterns = [pattern for some in MESSAGES_DIFFER.values() for pattern in some.split()]
        different = {name for session, name in evidence.items() if not as_sdk(session)}
        assert {name for name in different if not any(fnmatch(name, pattern) for pattern in patterns)} == set()
        assert {pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in different)} == set()

    def test_messages_are_those_that_the_client_resumes(self, evidence: dict[str, str]) -> None:
        with Index.open(os.environ["TRANSCRIPTS_DB"], fresh=False) as index:
            for session, name in evidence.items():
                chain = index.resume(session)
                told = uuids(ours.get_session_messages(session))
                turns = [entry.uuid for entry in chain.entries if entry.type in ("user", "assistant")]
                left_out = {uuid for uuid, _why in chain.dropped}
                assert [uuid for uuid in told if uuid not in left_out] == [uuid for uuid in turns if uuid in told], name

    def test_infos_are_the_sdks_but_where_it_is_named(self, client: Home) -> None:
        names: dict[str, str] = {}
        for path in sorted([*CASES.glob("faults/*/projects/*/*.jsonl"), *CASES.glob("genuine/projects/*/*.jsonl")]):
            os.utime(client.write(path.read_bytes(), path.stem), (1_700_000_000 + len(names),) * 2)
            names[path.stem] = name_of(path)
        told, expected = ours.list_sessions(), sdk.list_sessions()
        assert [info.session_id for info in told] == [info.session_id for info in expected]
        different: dict[str, set[str]] = {}
        for one, other in zip(told, expected, strict=True):
            assert one == ours.get_session_info(one.session_id)
            if one != other:
                name = names[one.session_id]
                unequal = {field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)}
                different[name] = different.get(name, set()) | unequal
        assert different == INFOS_DIFFER

    def test_sub_agents_are_the_sdks(self, client: Home) -> None:
        folders = [*CASES.glob("faults/*/projects/*"), *CASES.glob("genuine/projects/*")]
        for number, folder in enumerate(folders):
            shutil.copytree(folder, client.projects / f"-case-{number}", symlinks=True)
        different, seen = set(), 0
        for info in sdk.list_sessions():
            agents = sdk.list_subagents(info.session_id)
            assert ours.list_subagents(info.session_id) == agents
            for agent in agents:
                seen += 1
                if ours.get_subagent_messages(info.session_id, agent) != sdk.get_subagent_messages(info.session_id, agent):
                    different.add(agent)
        assert different == {"a04397017aeefb595"}  # it made parallel calls
        assert seen > len(different)


# -- the differences: each is what we do, beside what the SDK does -------------------------------------------------------


class TestInfoDifferences:
    def test_a_title_in_the_middle_of_a_file_counts(self, client: Home) -> None:
        log = Log().turns(1)
        filler(log)
        log.title("the title")
        filler(log)
        client.write(log)
        one, other = infos()
        assert (one.custom_title, one.summary) == ("the title", "the title")
        assert (other.custom_title, other.summary) == (None, "word 1 ask 0")

    def test_a_tag_in_the_middle_of_a_file_counts(self, client: Home) -> None:
        log = Log().turns(1)
        log.about("tag", tag="feature")
        filler(log)
        filler(log)
        client.write(log)
        one, other = infos()
        assert (one.tag, other.tag) == ("feature", None)

    def test_a_tag_counts_wherever_its_type_stands_in_the_line(self, client: Home) -> None:
        log = Log().turns(1)
        log.raw(dumps({"tag": "feature", "sessionId": SID, "type": "tag"}))
        client.write(log)
        one, other = infos()
        assert (one.tag, other.tag) == ("feature", None)

    def test_a_key_inside_a_call_is_no_title(self, client: Home) -> None:
        log = Log()
        log.user("fix the lamp")
        log.assistant([call("toolu_1", "Write", customTitle="not a title", summary="no summary", lastPrompt="no prompt")])
        client.write(log)
        one, other = infos()
        assert (one.custom_title, one.summary) == (None, "fix the lamp")
        assert (other.custom_title, other.summary) == ("not a title", "not a title")

    def test_of_two_titles_the_last_counts_however_they_are_spaced(self, client: Home) -> None:
        log = Log().turns(1)
        log.raw(json.dumps({"type": "custom-title", "customTitle": "first"}).encode())
        log.title("last")
        client.write(log)
        one, other = infos()
        assert (one.custom_title, other.custom_title) == ("last", "first")

    def test_a_first_prompt_longer_than_the_window_is_told(self, client: Home) -> None:
        log = Log()
        log.user("long " * WINDOW)
        client.write(log)
        assert sdk.list_sessions() == []
        (told,) = ours.list_sessions()
        assert told.first_prompt == ("long " * 40).rstrip() + "…"

    def test_white_space_in_a_first_prompt_is_folded(self, client: Home) -> None:
        log = Log()
        log.user("fix\n\n  the\tlamp")
        client.write(log)
        one, other = infos()
        assert (one.first_prompt, other.first_prompt) == ("fix the lamp", "fix    the\tlamp")

    def test_machine_text_is_no_first_prompt(self, client: Home) -> None:
        log = Log()
        log.user("<system-reminder>be kind</system-reminder>")
        log.user("fix the lamp")
        client.write(log)
        one, other = infos()
        assert (one.first_prompt, other.first_prompt) == ("fix the lamp", "<system-reminder>be kind</system-reminder>")

    def test_created_at_is_the_time_of_a_record_not_one_inside_it(self, client: Home) -> None:
        log = Log()
        log.about("file-history-snapshot", messageId=uuid(1), snapshot={"messageId": uuid(1), "timestamp": stamp(-60)})
        log.turns(1)
        client.write(log)
        one, other = infos()
        assert (one.created_at, other.created_at) == (millis(0), millis(-60))

    def test_a_time_that_is_none_is_passed_over(self, client: Home) -> None:
        log = Log()
        log.about("mode", mode="plan", timestamp="soon")
        log.turns(1)
        client.write(log)
        one, other = infos()
        assert (one.created_at, other.created_at) == (millis(0), None)

    def test_a_summary_titles_the_session_whose_message_it_names(self, client: Home) -> None:
        log, other_log = Log(SID).turns(1), Log(session_id(2), first=50).turns(1)
        log.summary("about the other", leaf=uuid(51))
        client.write(log)
        client.write(other_log)
        assert [info.summary for info in infos(SID)] == ["word 1 ask 0", "about the other"]
        assert [info.summary for info in infos(session_id(2))] == ["about the other", "word 50 ask 0"]

    def test_a_session_that_begins_with_a_sidechain_and_has_a_conversation_is_told(self, client: Home) -> None:
        log = Log()
        log.user("warm up", isSidechain=True)
        log.tip = None
        log.user("fix the lamp")
        client.write(log)
        assert [info.summary for info in ours.list_sessions()] == ["fix the lamp"]
        assert sdk.list_sessions() == []

    def test_last_modified_is_exact(self, client: Home) -> None:
        path = client.write(Log().turns(1))
        for nanoseconds in range(1_700_000_000_001_000_000, 1_700_000_000_050_000_000, 1_000_000):
            os.utime(path, ns=(nanoseconds, nanoseconds))
            one, other = infos()
            assert one.last_modified == nanoseconds // 1_000_000
            assert one.last_modified - other.last_modified in (0, 1)


class TestMessageDifferences:
    def test_an_invalid_byte_costs_nothing(self, client: Home) -> None:
        log = Log().turns(1)
        log.lines[0] = log.lines[0].replace(b"word", b"w\xffrd")
        client.write(log)
        told = ours.get_session_messages(SID)
        assert uuids(told) == [uuid(1), uuid(2)]
        assert told[0].message["content"].startswith("w�rd")
        with pytest.raises(UnicodeDecodeError):
            sdk.get_session_messages(SID)

    def test_a_missing_parent_does_not_end_the_conversation(self, client: Home) -> None:
        log = Log().turns(3)
        del log.lines[2]
        client.write(log)
        assert both() == ([uuid(1), uuid(2), uuid(4), uuid(5), uuid(6)], [uuid(4), uuid(5), uuid(6)])

    def test_preserved_messages_come_back(self, client: Home) -> None:
        client.write((CASES / "resume/g4_preserved_messages_only.jsonl").read_bytes())
        one, other = both()
        assert len(one) > len(other)
        assert set(other) < set(one)

    def test_two_records_on_one_line_are_two(self, client: Home) -> None:
        log = Log().turns(2)
        log.lines[1:3] = [log.lines[1] + log.lines[2]]
        client.write(log)
        one, other = both()
        assert (one, other) == ([uuid(1), uuid(2), uuid(4)], [uuid(4)])

    def test_the_conversation_ends_where_it_was_rewound_to(self, client: Home) -> None:
        log = Log().turns(3)
        log.about("last-prompt", lastPrompt="again", leafUuid=uuid(2), explicit=True)
        client.write(log)
        one, other = both()
        assert (one, other) == ([uuid(1), uuid(2)], [uuid(number) for number in range(1, 7)])

    def test_a_circle_of_parents_is_cut_not_dropped(self, client: Home) -> None:
        log = Log()
        log.user("hi", parentUuid=uuid(2))
        log.assistant("hello")
        client.write(log)
        assert both() == ([uuid(1), uuid(2)], [])

    def test_a_line_without_a_message_is_no_message(self, client: Home) -> None:
        log = Log().turns(1)
        log.chain("user")
        client.write(log)
        assert both() == ([uuid(1), uuid(2)], [uuid(1), uuid(2), uuid(3)])

    def test_the_lines_of_a_team_are_its_conversation(self, client: Home) -> None:
        client.write(Log(common={"teamName": "orchard"}).turns(1))
        assert both() == ([uuid(1), uuid(2)], [])

    def test_parallel_calls_of_a_sub_agent_are_whole(self, client: Home) -> None:
        client.write(Log().turns(1))
        log = Log(first=50, common={"isSidechain": True, "agentId": "a1"})
        log.user("find the lamp")
        calls = [log.assistant([call(f"toolu_{at}")], id="msg_1") for at in range(2)]
        results = []
        for at, asked in enumerate(calls):
            log.tip = asked
            results.append(log.user([result(f"toolu_{at}")]))
        client.write(log.data, f"{SID}/subagents/agent-a1.jsonl")
        told = uuids(ours.get_subagent_messages(SID, "a1"))
        assert told == [uuid(50), *calls, *results]
        assert uuids(sdk.get_subagent_messages(SID, "a1")) == [uuid(50), *calls, results[-1]]

    def test_meta_lines_of_a_conversation_are_left_out_and_those_of_a_sub_agent_are_not(self, client: Home) -> None:
        """As the SDK has it; what `resume` shows beside them are attachments and system lines."""
        log = Log().turns(1)
        log.user("caveat", isMeta=True)
        log.chain("system", subtype="informational", content="so")
        log.turns(1)
        client.write(log)
        client.write(log.data, f"{SID}/subagents/agent-a1.jsonl")
        assert both() == ([uuid(1), uuid(2), uuid(5), uuid(6)],) * 2
        told, expected = ours.get_subagent_messages(SID, "a1"), sdk.get_subagent_messages(SID, "a1")
        assert uuids(told) == uuids(expected) == [uuid(1), uuid(2), uuid(3), uuid(5), uuid(6)]

    def test_calls_without_a_result_are_told_although_they_are_not_sent_again(self, client: Home) -> None:
        log = Log()
        log.user("go")
        log.assistant([call("toolu_1")], id="msg_1")
        log.user("go on")
        log.assistant("gone", id="msg_2")
        client.write(log)
        assert both() == ([uuid(1), uuid(2), uuid(3), uuid(4)],) * 2


class TestFileDifferences:
    def test_of_several_files_with_one_id_the_newest_is_meant_by_every_function(self, client: Home) -> None:
        for age, key in enumerate(("-a", "-b", "-c")):
            log = Log(first=10 * age + 1)
            log.user(f"of {key}")
            os.utime(client.write(log, key=key), (1_000_000 - age,) * 2)
        os.utime(client.path(SID, "-b"), (2_000_000,) * 2)
        (told,) = ours.list_sessions()
        assert told == ours.get_session_info(SID) == sdk.list_sessions()[0]
        assert uuids(ours.get_session_messages(SID)) == [uuid(11)]
        ours.rename_session(SID, "renamed")
        assert b"renamed" in client.path(SID, "-b").read_bytes()

    def test_a_directory_with_characters_beyond_the_basic_plane_is_found(self, client: Home, tmp_path: Path) -> None:
        directory = tmp_path / "a😀b"
        directory.mkdir()
        client.write(Log().turns(1), key=project_key(directory))
        assert client.path(SID, project_key(directory)).parent.name.endswith("-a--b")
        assert [info.session_id for info in ours.list_sessions(str(directory))] == [SID]
        assert sdk.list_sessions(str(directory)) == []

    def test_a_title_behind_a_last_line_without_its_end_swallows_nothing(self, client: Home) -> None:
        log = Log().turns(1)
        for functions, number in ((ours, 1), (sdk, 2)):
            path = client.write(log.data[:-1], session_id(number))
            functions.rename_session(session_id(number), "a title")
            assert (b'}\n{"type":"custom-title"' in path.read_bytes()) == (functions is ours)
        assert len(sdk.get_session_messages(SID)) == 2
        assert len(sdk.get_session_messages(session_id(2))) == 1

    def test_a_line_separator_in_a_message_survives_a_fork(self, client: Home) -> None:
        log = Log()
        log.user("one\u2028two")
        log.assistant("yes")
        client.write(log)
        kept = [len(sdk.get_session_messages(functions.fork_session(SID).session_id)) for functions in (ours, sdk)]
        assert kept == [2, 1]

    def test_what_is_deleted_stays_in_the_database(self, client: Home) -> None:
        path = client.write(Log().turns(2))
        before = path.read_bytes()
        ours.delete_session(SID)
        assert not path.exists()
        assert ours.list_sessions() == []
        with Index.open(client.db) as index:
            index.restore(SID)
        assert path.read_bytes() == before
        assert [info.session_id for info in ours.list_sessions()] == [SID]

    def test_what_was_forgotten_is_not_told_of(self, client: Home) -> None:
        client.write(Log().turns(2))
        assert len(ours.list_sessions()) == 1
        with Index.open(client.db) as index:
            index.forget(SID)
        assert not [*ours.list_sessions(), *ours.get_session_messages(SID)]
        assert ours.get_session_info(SID) is None
        with pytest.raises(FileNotFoundError, match="not found"):
            ours.rename_session(SID, "again")


# -- folders, pages, freshness -------------------------------------------------------------------------------------------


class TestFolders:
    def test_a_directory_has_its_own_sessions(self, client: Home, directory: Path) -> None:
        client.write(Log(session_id(1), common={"cwd": None}).turns(1), key=project_key(directory))
        client.write(Log(session_id(2)).turns(1), key=f"{project_key(directory)}-2")
        for functions in (ours, sdk):
            (told,) = functions.list_sessions(str(directory))
            assert (told.session_id, told.cwd) == (session_id(1), str(directory))
            assert functions.get_session_info(session_id(2), str(directory)) is None
            assert functions.get_session_messages(session_id(2), str(directory)) == []
            assert len(functions.list_sessions()) == 2
        assert ours.list_sessions(str(directory)) == sdk.list_sessions(str(directory))

    def test_the_worktrees_of_a_directory_count(self, client: Home, directory: Path) -> None:
        def git(*arguments: str) -> None:
            identity = ["-c", "user.name=dev", "-c", "user.email=dev@example.com"]
            subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)

        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("worktree", "add", "-q", str(directory.parent / "other"))
        client.write(Log(session_id(1)).turns(1), key=project_key(directory))
        second = client.write(Log(session_id(2), common={"cwd": ""}).turns(1), key=project_key(directory.parent / "other"))
        os.utime(second, (1_700_000_000,) * 2)
        for place in (directory, directory.parent / "other"):
            assert ours.list_sessions(str(place)) == sdk.list_sessions(str(place))
            assert len(ours.list_sessions(str(place))) == 2
            assert len(ours.list_sessions(str(place), include_worktrees=False)) == 1
            for number in (1, 2):
                assert ours.get_session_info(session_id(number), str(place)) == sdk.get_session_info(
                    session_id(number), str(place)
                )
                assert len(ours.get_session_messages(session_id(number), str(place))) == 2

    @pytest.mark.parametrize("suffix", ["", "x"], ids=["its own hash", "another hash"])
    def test_the_folder_of_a_long_path_is_found(self, client: Home, tmp_path: Path, suffix: str) -> None:
        directory = tmp_path / ("long-" * 40) / ("name-" * 10)
        directory.mkdir(parents=True)
        client.write(Log().turns(1), key=project_key(directory) + suffix)
        assert [info.session_id for info in ours.list_sessions(str(directory))] == [SID]
        assert ours.list_sessions(str(directory)) == sdk.list_sessions(str(directory))

    def test_only_uuids_in_a_projects_folder_are_sessions(self, client: Home) -> None:
        client.write(Log().turns(1))
        for name in ("notes.jsonl", "agent-a1.jsonl", f"{session_id(3)}.json", f"{SID}/subagents/{session_id(4)}.jsonl"):
            client.write(Log().turns(1).data, name)
        (client.projects / f"{session_id(5)}.jsonl").write_bytes(Log().turns(1).data)
        client.write(b"", session_id(6))
        assert ours.list_sessions() == sdk.list_sessions()
        assert [info.session_id for info in ours.list_sessions()] == [SID]

    def test_where_nothing_is_nothing_is_told(self, client: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert ours.list_sessions() == ours.list_sessions(str(tmp_path)) == ours.list_sessions("/absent") == []
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "absent"))
        assert not [*ours.list_sessions(), *ours.get_session_messages(SID), *ours.list_subagents(SID)]
        with pytest.raises(FileNotFoundError, match="no projects directory"):
            ours.rename_session(SID, "title")

    def test_the_config_folder_is_the_one_of_the_moment(
        self, client: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.write(Log(session_id(1)).turns(1))
        Home(tmp_path / "second", client.db).write(Log(session_id(2)).turns(1))
        assert [info.session_id for info in ours.list_sessions()] == [session_id(1)]
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "second"))
        assert [info.session_id for info in ours.list_sessions()] == [session_id(2)]
        assert ours.get_session_info(session_id(1)) is None

    def test_a_session_of_commands_is_called_by_the_first(self, client: Home) -> None:
        log = Log()
        log.user("<command-name>/init</command-name> <command-message>init</command-message>")
        log.user("<command-name>/clear</command-name>")
        client.write(log)
        one, other = infos()
        assert one == other
        assert (one.summary, one.first_prompt) == ("/init", "/init")
        log.user("a prompt at last")
        client.write(log)
        assert [info.first_prompt for info in infos()] == ["a prompt at last"] * 2

    def test_the_order_of_what_titles_a_session(self, client: Home) -> None:
        log = Log().turns(1)
        for kind, key in (("summary", "summary"), ("last-prompt", "lastPrompt"), ("ai-title", "aiTitle")):
            log.raw(dumps({"type": kind, key: f"the {kind}"}))
            client.write(log)
            one, other = infos()
            assert one == other
            assert one.summary == f"the {kind}"
        log.title("d")
        client.write(log)
        assert [info.custom_title for info in infos()] == ["d", "d"]


@pytest.fixture
def paged(client: Home) -> str:
    """A session of nine messages with a sub-agent, one of several."""
    log = Log().turns(4)
    log.user("and now")
    for number in range(1, 7):
        log.session = session_id(number)
        os.utime(client.write(log), (1_700_000_000 + number,) * 2)
    client.write(log.data, f"{SID}/subagents/agent-a1.jsonl")
    assert len(sdk.get_session_messages(SID)) == len(sdk.get_subagent_messages(SID, "a1")) == 9
    return SID


class TestPages:
    @given(st.none() | st.integers(-3, 12), st.integers(-12, 12))
    def test_a_page_is_the_sdks(self, paged: str, limit: int | None, offset: int) -> None:
        for name, key in (("get_session_messages", (paged,)), ("get_subagent_messages", (paged, "a1")), ("list_sessions", ())):
            told, expected = (getattr(functions, name)(*key, limit=limit, offset=offset) for functions in (ours, sdk))
            assert told == expected


class TestFreshness:
    def test_what_was_written_since_is_told(self, client: Home) -> None:
        log = Log().turns(1)
        path = client.write(log)
        assert len(ours.list_sessions()) == 1
        for count in range(2, 6):
            log.turns(1)
            path.write_bytes(log.data)
            log.title(f"title {count}")
            assert len(ours.get_session_messages(SID)) == 2 * count
            path.write_bytes(log.data)
            assert [info.summary for info in ours.list_sessions()] == [f"title {count}"]

    def test_a_rewritten_file_is_read_anew(self, client: Home) -> None:
        client.write(Log().turns(3))
        assert len(ours.get_session_messages(SID)) == 6
        client.write(Log(first=50).turns(2))
        assert uuids(ours.get_session_messages(SID)) == [uuid(number) for number in range(50, 54)]

    def test_what_was_removed_is_no_longer_told(self, client: Home) -> None:
        path = client.write(Log().turns(1))
        client.write(Log().turns(1).data, f"{SID}/subagents/agent-a1.jsonl")
        assert ours.list_subagents(SID) == ["a1"]
        shutil.rmtree(client.path(SID).with_suffix(""))
        assert not [*ours.list_subagents(SID), *ours.get_subagent_messages(SID, "a1")]
        path.unlink()
        assert not [*ours.list_sessions(), *ours.get_session_messages(SID)]

    def test_what_another_process_imported_is_told(self, client: Home) -> None:
        client.write(Log().turns(1))
        assert len(ours.list_sessions()) == 1
        client.write(Log(session_id(2)).turns(1))
        with Index.open(client.db) as other:
            other.sync([client.root])
        assert len(ours.list_sessions()) == 2

    def test_no_root_is_remembered(self, client: Home) -> None:
        client.write(Log().turns(1))
        ours.list_sessions()
        ours.get_session_messages(SID)
        assert held.held_index().roots() == []


class TestSubAgents:
    def test_they_stand_by_the_places_of_their_files(self, client: Home) -> None:
        client.write(Log().turns(1))
        log = Log(first=20, common={"isSidechain": True}).turns(1)
        for name in ("agent-b", "workflows/run-1/agent-c", "agent-a", "zeta/agent-d", "other", "agent-z"):
            client.write(log.data, f"{SID}/subagents/{name}.jsonl")
        client.write(b'{"toolUseId":"toolu_1","parentAgentId":"a"}', f"{SID}/subagents/workflows/run-1/agent-c.meta.json")
        client.write(b"no json", f"{SID}/subagents/agent-b.meta.json")
        assert ours.list_subagents(SID) == sdk.list_subagents(SID) == ["a", "b", "z", "c", "d"]
        for agent in "abcdz":
            assert ours.get_subagent_messages(SID, agent) == sdk.get_subagent_messages(SID, agent)
        (told, _reply) = ours.get_subagent_messages(SID, "c")
        assert (told.parent_tool_use_id, told.parent_agent_id) == ("toolu_1", "a")
        assert ours.get_subagent_messages(SID, "absent") == []


# -- writing -------------------------------------------------------------------------------------------------------------


class TestWriting:
    def test_titles_and_tags_are_written_as_the_sdk_does(self, client: Home) -> None:
        for functions, number in ((ours, 1), (sdk, 2)):
            client.write(Log(session_id(number)).turns(1))
            functions.rename_session(session_id(number), "  Größe 東京  ")
            functions.tag_session(session_id(number), "\u200bfea\u00adture ")
            functions.tag_session(session_id(number), None)
        one, other = (client.path(session_id(number)).read_bytes().splitlines()[2:] for number in (1, 2))
        assert [json.loads(line) | {"sessionId": ""} for line in one] == [json.loads(line) | {"sessionId": ""} for line in other]
        assert infos()[0] == infos()[1]

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("rename_session", ("",)), ("rename_session", (" \n",)), ("tag_session", ("",)), ("tag_session", ("\u200b",)),
            ("fork_session", (None, "no-uuid")), ("fork_session", (None, uuid(99))),
        ],
    )  # fmt: skip
    def test_what_cannot_be_written_is_refused_as_the_sdk_does(self, client: Home, name: str, given: tuple[Any, ...]) -> None:
        before = client.write(Log().turns(1)).read_bytes()
        told, expected = (outcome(getattr(functions, name), SID, *given) for functions in (ours, sdk))
        assert told == expected
        assert client.path(SID).read_bytes() == before

    def test_a_file_without_messages_is_not_forked(self, client: Home) -> None:
        client.write(b'{"type":"mode","mode":"plan"}\n')
        assert outcome(ours.fork_session, SID) == outcome(sdk.fork_session, SID)
        assert outcome(ours.fork_session, SID)[0] == "ValueError"

    def test_a_fork_is_the_sdks(self, client: Home) -> None:
        log = Log().turns(2)
        log.chain("progress", data={})
        log.turns(1)
        log.user("aside", isSidechain=True)
        client.write(log)
        for up_to in (None, uuid(3)):
            forks = [functions.fork_session(SID, up_to_message_id=up_to) for functions in (ours, sdk)]
            assert isinstance(forks[0], sdk.ForkSessionResult)
            one, other = (comparable(client.path(fork.session_id)) for fork in forks)
            assert one == other
            assert infos(forks[0].session_id)[0].summary == "word 1 ask 0 (fork)"

    def test_a_fork_takes_the_title_that_is_given(self, client: Home) -> None:
        client.write(Log().turns(1))
        fork = ours.fork_session(SID, title="mine")
        assert infos(fork.session_id)[0].custom_title == infos(fork.session_id)[1].custom_title == "mine"

    def test_delete_removes_the_file_and_its_folder(self, client: Home) -> None:
        path = client.write(Log().turns(1))
        client.write(Log().turns(1).data, f"{SID}/subagents/agent-a1.jsonl")
        ours.delete_session(SID)
        assert not path.exists()
        assert not path.with_suffix("").exists()
        with pytest.raises(FileNotFoundError):
            ours.delete_session(SID)

    def test_an_empty_file_is_passed_over(self, client: Home) -> None:
        empty, path = client.write(b"", key="-a"), client.write(Log().turns(1), key="-z")
        ours.rename_session(SID, "title")
        assert empty.read_bytes() == b""
        assert b"title" in path.read_bytes()


def comparable(path: Path) -> list[Json]:
    """The lines of a fork, with its new ids counted and its own times taken out."""
    seen: dict[str, str] = {}
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    for record in records:
        for key in ("uuid", "parentUuid", "sessionId"):
            if record.get(key):
                record[key] = seen.setdefault(record[key], f"id {len(seen)}")
    for record in [records[-1], [record for record in records if record["type"] in ("user", "assistant")][-1]]:
        assert record.pop("timestamp")
    return records


# -- the Index that is held ----------------------------------------------------------------------------------------------


class TestHeld:
    def test_one_database_has_one_index(self, client: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = held.held_index()
        assert held.held_index() is first
        monkeypatch.setenv("TRANSCRIPTS_DB", str(empty_database(tmp_path / "other.db")))
        assert held.held_index() is not first
        monkeypatch.setenv("TRANSCRIPTS_DB", str(client.db))
        assert held.held_index() is first

    def test_a_database_that_was_replaced_is_opened_anew(self, client: Home) -> None:
        client.write(Log().turns(1))
        assert len(ours.list_sessions()) == 1
        for path in client.db.parent.glob("index.db*"):
            path.unlink()
        assert len(ours.list_sessions()) == 1
        assert client.db.exists()

    def test_a_child_process_opens_its_own(self, client: Home) -> None:
        client.write(Log().turns(1))
        assert len(ours.list_sessions()) == 1
        program = (
            "import os, sys\n"
            "from transcripts.interfaces import held, sdk_sessions\n"
            "before, mine = len(sdk_sessions.list_sessions()), held.held_index()\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    same = held.held_index() is mine\n"
            "    os._exit(9 if same or len(sdk_sessions.list_sessions()) != 1 else 0)\n"
            "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
            "sys.exit(code or before - 1 or held.held_index() is not mine)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_several_threads_ask_at_once(self, client: Home) -> None:
        for number in range(1, 9):
            client.write(Log(session_id(number), first=100 * number).turns(3))
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda at: len(ours.get_session_messages(session_id(1 + at % 8))), range(64)))
            lists = list(pool.map(lambda _at: len(ours.list_sessions()), range(16)))
        assert set(told) == {6}
        assert set(lists) == {8}
