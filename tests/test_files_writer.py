"""Appending to a transcript: no byte that stood there changes, nothing is lost, and no two writers meet in a line."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcripts.errors import FileExists, InvalidRequest, NotFound, NotWritten, TranscriptBusy
from transcripts.files import writer

ROOT = Path(__file__).parent.parent

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(
    st.characters(exclude_categories=[])  # lone surrogates too
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
entries = st.dictionaries(st.text(st.characters(exclude_categories=[]), max_size=5), values, max_size=4)


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.writing", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "projects" / "-home-dev-shop" / "session.jsonl")


def write(path: str, data: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data)


class TestAppend:
    @given(before=st.binary(max_size=40), some=st.lists(entries, min_size=1, max_size=4))
    def test_what_stood_there_stands_and_each_entry_is_a_line(self, tmp_path: Path, before: bytes, some: list[Any]) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(before)
        added = writer.append(str(path), some)
        data = path.read_bytes()
        assert data.startswith(before)
        assert len(data) == len(before) + added
        guard = b"\n" if before and not before.endswith(b"\n") else b""
        lines = data[len(before) + len(guard) :].split(b"\n")
        assert data[len(before) :].startswith(guard)
        assert [json.loads(line) for line in lines[:-1]] == some
        assert lines[-1] == b""

    def test_bytes_are_lines_as_they_are(self, path: str) -> None:
        writer.append(path, [b'{"b": 1,  "a":2}', {"c": "é\u2028"}])
        assert Path(path).read_bytes() == b'{"b": 1,  "a":2}\n' + '{"c":"é\u2028"}\n'.encode()

    @pytest.mark.parametrize("wrong", [b"", b"{}\n", b"{}\n{}", {"a": float("nan")}, {"a": object()}, {"a": float("inf")}])
    def test_what_is_no_line_is_refused_before_anything_is_written(self, path: str, wrong: Any) -> None:
        write(path, b"{}\n")
        with pytest.raises(InvalidRequest):
            writer.append(path, [{"a": 1}, wrong])
        assert Path(path).read_bytes() == b"{}\n"

    def test_files_and_folders_are_their_owners(self, path: str, tmp_path: Path) -> None:
        old = os.umask(0)
        try:
            writer.append(path, [{}])
        finally:
            os.umask(old)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        for folder in Path(path).parents[:2]:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        os.chmod(path, 0o644)
        writer.append(path, [{}])
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o644

    def test_no_entries_make_no_file(self, path: str) -> None:
        assert writer.append(path, []) == 0
        assert not os.path.exists(path)

    def test_without_make_a_missing_file_is_not_begun(self, path: str) -> None:
        with pytest.raises(NotFound, match="is not there"):
            writer.append(path, [{}], make=False)
        assert not os.path.exists(path)

    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.jsonl")
        with pytest.raises(InvalidRequest, match="no regular file"):
            writer.append(str(tmp_path / "a.jsonl"), [{}])

    def test_a_link_that_leads_nowhere_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").symlink_to(tmp_path / "missing" / "b.jsonl")
        with pytest.raises(NotWritten):
            writer.append(str(tmp_path / "a.jsonl"), [{}])

    def test_fsync_is_once_for_a_group_and_once_for_a_new_name(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[bool] = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
        writer.append(path, [{}] * 100, fsync=True)
        assert synced == [False, True]
        writer.append(path, [{}] * 100, fsync=True)
        assert synced == [False, True, False]
        writer.append(path, [{}])
        assert len(synced) == 3


class TestFailures:
    @pytest.mark.parametrize("before", [b'{"a":1}\n', b'{"a":1}\n{"torn":'])
    def test_a_full_disk_leaves_the_file_as_it_was(self, path: str, before: bytes) -> None:
        write(path, before)
        told, _errors = process("full", path, len(before) + 40).communicate()
        assert "could not be written" in told
        assert Path(path).read_bytes() == before

    def test_a_new_file_for_which_there_is_no_room_goes(self, path: str) -> None:
        told, _errors = process("full", path, 40).communicate()
        assert "could not be written" in told
        assert not os.path.exists(path)

    @pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_what_others_append_meanwhile_is_not_taken_back(
        self, path: str, monkeypatch: pytest.MonkeyPatch, stop: BaseException
    ) -> None:
        write(path, b'{"a":1}\n')
        theirs = iter([b"", b'{"theirs":1}\n'])
        whole, failing = os.write, [False]

        def part(descriptor: int, data: bytes) -> int:
            if failing[0]:
                with open(path, "ab") as file:
                    file.write(next(theirs))
                raise stop
            failing[0] = True
            return whole(descriptor, bytes(data)[:5])

        monkeypatch.setattr(os, "write", part)
        for expected in (b'{"a":1}\n', b'{"a":1}\n{"b":{"theirs":1}\n'):
            failing[0] = False
            with pytest.raises((NotWritten, KeyboardInterrupt)):
                writer.append(path, [{"b": 2}])
            assert Path(path).read_bytes() == expected

    def test_the_rest_of_a_short_write_is_written(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, bytes(data)[:7]))
        writer.append(path, [{"words": "word " * 20}])
        assert Path(path).read_bytes() == b'{"words":"' + b"word " * 20 + b'"}\n'

    def test_a_new_file_of_which_nothing_was_written_goes(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(descriptor: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(NotWritten, match="No space left") as failed:
            writer.append(path, [{}])
        assert isinstance(failed.value.__cause__, OSError)
        assert not os.path.exists(path)


class TestLock:
    def test_two_processes_never_interleave_and_lose_nothing(self, path: str) -> None:
        write(path, b'{"torn":')
        writers = [process("append", path, name, 60) for name in ("a", "b", "c")]
        for each in writers:
            each.communicate()
        assert [each.returncode for each in writers] == [0, 0, 0]
        torn, *lines = Path(path).read_bytes().splitlines()
        found = [json.loads(line) for line in lines]
        assert torn == b'{"torn":'
        for name in ("a", "b", "c"):
            assert [entry["number"] for entry in found if entry["writer"] == name] == list(range(60))
        assert all(entry["words"] == entry["writer"] * (entry["number"] * 997 % 70_000) for entry in found)

    def test_what_is_decided_under_the_lock_stays_true(self, path: str) -> None:
        def count_up() -> None:
            for _ in range(50):
                with writer.locked(path) as transcript:
                    lines = Path(path).read_bytes().count(b"\n")
                    transcript.append([{"number": lines}])

        threads = [Thread(target=count_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [json.loads(line)["number"] for line in Path(path).read_bytes().splitlines()] == list(range(200))

    def test_a_lock_that_is_held_is_waited_for_then_told(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "LOCK_TIMEOUT", 0.1)
        holder = process("hold", path)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TranscriptBusy, match="another process"):
            writer.append(path, [{}])
        holder.kill()
        holder.communicate()
        assert writer.append(path, [{}]) == 3  # the lock ends with its process

    def test_a_file_that_is_replaced_meanwhile_is_not_written_to(self, path: str) -> None:
        write(path, b"{}\n")
        with writer.locked(path):
            waiting = Thread(target=writer.append, args=(path, [{"late": 1}]))
            waiting.start()
            waiting.join(0.05)
            os.unlink(path)
            write(path, b'{"new":1}\n')
        waiting.join()
        assert Path(path).read_bytes() == b'{"new":1}\n{"late":1}\n'

    def test_nothing_lies_beside_the_transcript(self, path: str) -> None:
        with writer.locked(path) as transcript:
            transcript.append([{}])
            assert os.listdir(os.path.dirname(path)) == ["session.jsonl"]
        assert os.listdir(os.path.dirname(path)) == ["session.jsonl"]


class TestCreate:
    def test_a_new_file_is_whole(self, path: str) -> None:
        writer.create(path, ({"number": number} for number in range(3)))
        assert Path(path).read_bytes() == b'{"number":0}\n{"number":1}\n{"number":2}\n'
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert os.listdir(os.path.dirname(path)) == ["session.jsonl"]

    def test_what_stands_there_is_not_written_over(self, path: str) -> None:
        write(path, b"{}\n")
        with pytest.raises(FileExists):
            writer.create(path, [{"a": 1}])
        assert Path(path).read_bytes() == b"{}\n"

    def test_what_fails_leaves_nothing(self, path: str) -> None:
        with pytest.raises(InvalidRequest):
            writer.create(path, [{"a": 1}, {"a": float("nan")}])
        assert os.listdir(os.path.dirname(path)) == []
