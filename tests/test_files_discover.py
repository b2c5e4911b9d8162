"""A path in, the transcript files and their side files out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import KEY, Home, session_id
from transcripts.files.discover import Scan, TranscriptFile, scan

SESSION = session_id(1)


def told(found: Scan) -> dict[str, tuple[str, str | None, str | None, str]]:
    """What is told of each file, by its name on disk."""
    return {os.path.basename(file.path): (file.kind, file.session_id, file.agent_id, file.name) for file in found.files}


def one(home: Home, name: str, data: bytes = b"{}\n") -> TranscriptFile:
    """The file of that name as a scan of the projects folder finds it."""
    path = home.write(data, name)
    (found,) = [file for file in scan(home.projects).files if file.path == str(path.resolve())]
    return found


class TestLayouts:
    def test_a_jsonl_file_of_a_project_is_a_main_transcript_and_its_stem_the_session(self, home: Home) -> None:
        file = one(home, SESSION)
        assert (file.kind, file.project_key, file.session_id, file.agent_id) == ("main", KEY, SESSION, None)

    @pytest.mark.parametrize("stem", ["notes", "a.b", "über", "0", "x" * 200])
    def test_any_stem_is_a_session_id(self, home: Home, stem: str) -> None:
        assert one(home, f"{stem}.jsonl").session_id == stem

    def test_a_sub_agent_belongs_to_the_session_whose_folder_holds_it(self, home: Home) -> None:
        file = one(home, f"{SESSION}/subagents/agent-a1b2.jsonl")
        assert (file.kind, file.session_id, file.agent_id, file.name) == ("agent", SESSION, "a1b2", "subagents/agent-a1b2.jsonl")

    def test_a_workflow_run_holds_sub_agents_too(self, home: Home) -> None:
        file = one(home, f"{SESSION}/subagents/workflows/wf_1/agent-d4.jsonl")
        assert (file.kind, file.session_id, file.agent_id) == ("agent", SESSION, "d4")

    def test_an_old_agent_file_beside_the_sessions_does_not_tell_its_session(self, home: Home) -> None:
        file = one(home, "agent-a1b2.jsonl")
        assert (file.kind, file.session_id, file.agent_id) == ("agent", None, "a1b2")

    @pytest.mark.parametrize(
        "name",
        [
            "subagents/agent-a1.meta.json",
            "subagents/workflows/wf_1/journal.jsonl",
            "tool-results/toolu_1.txt",
            "custom-title.json",
        ],
    )
    def test_what_the_client_deletes_with_a_session_is_a_side_file_of_it(self, home: Home, name: str) -> None:
        home.write(b"{}\n", SESSION)
        file = one(home, f"{SESSION}/{name}")
        assert (file.kind, file.session_id, file.agent_id, file.name) == ("side", SESSION, None, name)

    def test_side_files_are_found_when_the_transcript_is_gone(self, home: Home) -> None:
        assert one(home, f"{SESSION}/tool-results/toolu_1.txt").kind == "side"

    def test_the_memory_folder_and_other_files_of_a_project_are_no_transcripts(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        for name in ("memory/notes.md", "memory/old.jsonl", "sessions-index.json", "backup/other.jsonl"):
            home.write(b"{}", name)
        assert list(told(scan(home.projects))) == [f"{SESSION}.jsonl"]

    def test_a_scan_tells_size_times_and_inode(self, home: Home) -> None:
        file = one(home, SESSION, b"12345\n")
        status = home.path(SESSION).stat()
        assert (file.size, file.mtime_ns, file.ctime_ns) == (6, status.st_mtime_ns, status.st_ctime_ns)
        assert (file.device, file.inode) == (status.st_dev, status.st_ino)


class TestRoots:
    @pytest.fixture
    def whole(self, home: Home) -> dict[str, tuple[str, str | None, str | None, str]]:
        home.write(b"{}\n", SESSION)
        home.write(b"{}\n", f"{SESSION}/subagents/agent-a1.jsonl")
        home.write(b"{}\n", f"{SESSION}/subagents/workflows/wf_1/agent-a2.jsonl")
        home.write(b"{}", f"{SESSION}/tool-results/toolu_1.txt")
        return told(scan(home.projects))

    def test_config_folder_projects_folder_and_project_find_the_same(self, home: Home, whole: dict[str, object]) -> None:
        assert told(scan(home.root)) == told(scan(home.projects / KEY)) == whole
        assert len(whole) == 4

    def test_a_sessions_folder_finds_what_is_in_it(self, home: Home, whole: dict[str, object]) -> None:
        del whole[f"{SESSION}.jsonl"]
        assert told(scan(home.projects / KEY / SESSION)) == whole

    def test_a_sessions_folder_without_sub_agents_is_one_too(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        home.write(b"{}", f"{SESSION}/custom-title.json")
        assert told(scan(home.projects / KEY / SESSION)) == {"custom-title.json": ("side", SESSION, None, "custom-title.json")}

    def test_one_file_is_told_like_in_a_scan_of_all(self, home: Home, whole: dict[str, object]) -> None:
        for file in scan(home.projects).files:
            assert told(scan(file.path)) == {os.path.basename(file.path): whole[os.path.basename(file.path)]}

    def test_sessions_only_are_the_main_transcripts_and_nothing_else(self, home: Home, whole: dict[str, object]) -> None:
        home.write(b"{}\n", "agent-a3.jsonl")
        mains = {f"{SESSION}.jsonl": whole[f"{SESSION}.jsonl"]}
        for root in (home.root, home.projects, home.projects / KEY):
            assert told(scan(root, sessions_only=True)) == mains
        assert told(scan(home.path(SESSION), sessions_only=True)) == mains
        assert told(scan(home.projects / KEY / SESSION, sessions_only=True)) == {}

    def test_a_link_to_a_root_is_the_root(self, home: Home, whole: dict[str, object], tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(home.root)
        assert scan(tmp_path / "link") == scan(home.root)

    def test_a_stray_file_among_the_projects_does_not_hide_them(self, home: Home, whole: dict[str, object]) -> None:
        (home.projects / "stray.jsonl").write_bytes(b"{}\n")
        assert told(scan(home.projects)) == told(scan(home.root)) == whole

    def test_files_come_in_order_of_their_paths(self, home: Home, whole: dict[str, object]) -> None:
        home.write(b"{}\n", SESSION, key="-a")
        paths = [file.path for file in scan(home.root).files]
        assert paths == sorted(paths)


class TestWhatIsNoTranscript:
    @pytest.mark.parametrize("path", ["absent", "absent/deeper", "nul\0byte", "x" * 300])
    def test_a_path_that_is_none_is_a_problem_and_counts_as_unread(self, tmp_path: Path, path: str) -> None:
        found = scan(tmp_path / path)
        assert (found.files, found.unread, len(found.problems)) == ([], [found.root], 1)

    def test_an_empty_folder_has_neither_files_nor_problems(self, tmp_path: Path) -> None:
        assert scan(tmp_path)[1:] == ([], [], [])

    def test_a_folder_of_other_things_is_not_taken_in(self, tmp_path: Path) -> None:
        for name in ("src/package/module.py", "src/package/deep/data.txt", "README.md"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        assert scan(tmp_path).files == []

    def test_a_pipe_or_a_folder_named_like_a_transcript_is_passed_over(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        os.mkfifo(home.path("pipe.jsonl"))
        home.path("folder.jsonl").mkdir()
        assert list(told(scan(home.root))) == [f"{SESSION}.jsonl"]

    def test_loops_of_links_end(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        home.write(b"{}", f"{SESSION}/tool-results/a.txt")
        (home.projects / KEY / SESSION / "subagents").symlink_to(home.projects / KEY)
        home.path("loop.jsonl").symlink_to(home.path("loop.jsonl"))
        found = scan(home.root)
        assert sorted(told(found)) == [f"{SESSION}.jsonl", "a.txt"]
        assert [os.path.basename(problem.path) for problem in found.problems] == ["loop.jsonl"]

    def test_folders_of_any_depth_are_read(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(b"{}\n", f"{SESSION}/subagents/agent-a.jsonl")
        monkeypatch.chdir(home.projects / KEY / SESSION / "subagents")
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        found = scan(home.root)
        for _ in range(1200):  # what clears up after tests goes down by recursion
            os.chdir("..")
            os.rmdir("d")
        assert (list(told(found)), found.problems) == (["agent-a.jsonl"], [])

    def test_a_link_that_leads_nowhere_is_no_fault(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        home.path("nowhere.jsonl").symlink_to(home.path("absent"))
        assert (list(told(scan(home.root))), scan(home.root).problems) == ([f"{SESSION}.jsonl"], [])

    def test_a_name_that_is_no_utf8_is_a_problem_and_its_neighbours_are_found(self, home: Home) -> None:
        home.write(b"{}\n", SESSION)
        odd = os.fsencode(home.projects / KEY) + b"/\xff.jsonl"
        with open(odd, "wb"):
            pass
        found = scan(home.root)
        assert list(told(found)) == [f"{SESSION}.jsonl"]
        assert [problem.reason for problem in found.problems] == ["the name is no valid UTF-8; rename it to have it imported"]
        assert scan(os.fsdecode(odd)).problems == found.problems

    def test_an_unreadable_folder_is_a_problem_and_the_others_are_read(self, home: Home, forbid: Callable[[Path], None]) -> None:
        home.write(b"{}\n", SESSION)
        home.write(b"{}\n", session_id(2), key="-secret")
        forbid((home.projects / "-secret").resolve())
        found = scan(home.root)
        assert list(told(found)) == [f"{SESSION}.jsonl"]
        assert found.unread == [str((home.projects / "-secret").resolve())]
        assert [problem.reason for problem in found.problems] == ["cannot be read (Permission denied)"]
