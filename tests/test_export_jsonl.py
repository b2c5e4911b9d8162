"""Out again, byte for byte: every recorded file, any bytes at all, before and after the sources are gone."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import CASES, KEY, Home, Lab, Log, database_of, session_id
from transcripts.api import Index
from transcripts.errors import FileExists, InvalidRequest, NotFound
from transcripts.files.discover import scan

SESSION = session_id(1)
SOUP = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [b"", b"\r", b"\x00" * 50, b"\xef\xbb\xbf{}", b'{"type":"user"}', b"\xff\xfe", b"x" * 5000, b'{"a":"\xed\xa0\x80"}']
        ),
    ),
    max_size=40,
).map(b"\n".join)


def exported(index: Index, name: str, version: int | None = None) -> bytes:
    out = BytesIO()
    index.export(name, out, version=version)
    return out.getvalue()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def session(home: Home) -> Home:
    """A session with all that the client lays beside it, imported."""
    home.write(Log().turns(3))
    home.write(Log(first=50).turns(1).data, f"{SESSION}/subagents/agent-a1.jsonl")
    home.write(b'{"agentType":"helper"}', f"{SESSION}/subagents/agent-a1.meta.json")
    home.write(Log(first=60).turns(1).data, f"{SESSION}/subagents/workflows/wf_1/agent-a2.jsonl")
    home.write(b'{"type":"step"}\n', f"{SESSION}/subagents/workflows/wf_1/journal.jsonl")
    home.write(b"big\x00\xff output", f"{SESSION}/tool-results/toolu_1.txt")
    home.write(b'{"title":"x"}', f"{SESSION}/custom-title.json")
    home.write(Log(first=70).turns(1).data, "agent-old.jsonl")
    home.write(Log(session_id(2), first=90).turns(1))
    home.sync()
    return home


class TestRoundTrip:
    def test_every_recorded_file_comes_out_byte_for_byte_before_and_after_it_is_gone(self, home: Home) -> None:
        shutil.copytree(CASES / "genuine" / "projects", home.projects)
        shutil.copytree(CASES / "resume", home.projects / "-resume")
        for number, copied in enumerate(sorted(CASES.glob("faults/*/*/"))):
            shutil.copytree(
                copied, home.projects if copied.name == "projects" else home.projects / f"-{number}", dirs_exist_ok=True
            )
        found = {file.path: file for file in scan(home.projects).files}
        assert len(found) > 300
        data = {path: Path(path).read_bytes() for path, file in found.items() if file.kind != "side"}
        with home.open() as index:
            index.sync([home.projects])
            assert [path for path, expected in data.items() if exported(index, path) != expected] == []
            shutil.rmtree(home.root)
            assert [path for path, expected in data.items() if exported(index, path) != expected] == []

    @settings(max_examples=60)
    @given(data=SOUP)
    def test_any_bytes_come_out_as_they_were(self, lab: Lab, data: bytes) -> None:
        home = lab.home("soup")
        path = home.write(data)
        home.sync()
        with home.open() as index:
            assert exported(index, SESSION) == data
            assert b"\n".join(index.lines(SESSION)) + b"\n" * data.endswith(b"\n") == data
            path.unlink()
            index.sync()
            assert exported(index, SESSION) == data

    @settings(max_examples=25)
    @given(parts=st.lists(SOUP, min_size=1, max_size=4))
    def test_bytes_that_came_in_parts_come_out_as_one(self, lab: Lab, parts: list[bytes]) -> None:
        home = lab.home("parts")
        for at in range(1, len(parts) + 1):
            home.write(b"".join(parts[:at]))
            home.sync()
        with home.open() as index:
            assert exported(index, SESSION) == b"".join(parts)

    def test_after_a_rewrite_each_version_exports_its_own_bytes(self, home: Home) -> None:
        texts = [Log().turns(2).data, Log(first=50).turns(1).data, b"", Log().turns(1).data]
        for data in texts:
            home.write(data)
            home.sync()
        with home.open() as index:
            assert [exported(index, SESSION, number) for number in (1, 2, 3)] == [texts[0], texts[1], texts[3]]
            with pytest.raises(NotFound, match="versions 1 to 3, not 4"):
                exported(index, SESSION, 4)

    def test_what_was_imported_before_a_file_shrank_is_exported_meanwhile(self, home: Home) -> None:
        home.write(Log().turns(2))
        home.sync()
        data = home.path(SESSION).read_bytes()
        home.write(b"")
        with home.open() as index:
            assert exported(index, SESSION) == data


@pytest.mark.usefixtures("umask")
class TestWritten:
    def test_a_file_is_its_owners_alone_and_so_are_new_folders(self, session: Home, tmp_path: Path) -> None:
        path = tmp_path / "out" / "deep" / "copy.jsonl"
        with session.open() as index:
            assert index.export(SESSION, path) == [str(path)]
        assert path.read_bytes() == session.path(SESSION).read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)} == {0o700}

    def test_with_files_a_session_is_laid_out_as_the_client_does(self, session: Home, tmp_path: Path) -> None:
        out = tmp_path / "out"
        with session.open() as index:
            written = index.export(SESSION, out, with_files=True)
        expected = tree(session.projects / KEY)
        del expected[f"{session_id(2)}.jsonl"]
        assert tree(out) == expected
        assert sorted(written) == sorted(str(out / name) for name in expected)
        assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()} == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in [out, *out.rglob("*")] if path.is_dir()} == {0o700}

    def test_what_was_exported_is_a_project_that_imports_as_it_was(self, session: Home, tmp_path: Path) -> None:
        other = Home(tmp_path / "other", tmp_path / "other.db")
        with session.open() as index:
            index.export(SESSION, other.projects / KEY, with_files=True)
        other.sync()
        with session.open() as one, other.open() as index:
            assert one.session(SESSION).message_count == index.session(SESSION).message_count
            assert one.session(SESSION).agent_count == index.session(SESSION).agent_count == 3

    def test_a_sub_agents_transcript_is_exported_by_its_path(self, session: Home, tmp_path: Path) -> None:
        path = session.path(f"{SESSION}/subagents/agent-a1.jsonl")
        data = path.read_bytes()
        path.unlink()
        session.sync()
        with session.open() as index:
            assert exported(index, str(path)) == data

    def test_nothing_is_written_over(self, session: Home, tmp_path: Path) -> None:
        path = tmp_path / "there.jsonl"
        path.write_text("mine")
        with session.open() as index:
            with pytest.raises(FileExists, match="exists and is not overwritten"):
                index.export(SESSION, path)
            (tmp_path / "link.jsonl").symlink_to(tmp_path / "nowhere")
            with pytest.raises(FileExists):
                index.export(SESSION, tmp_path / "link.jsonl")
            (tmp_path / "out" / SESSION / "tool-results").mkdir(parents=True)
            (tmp_path / "out" / SESSION / "tool-results" / "toolu_1.txt").write_text("mine")
            with pytest.raises(FileExists):
                index.export(SESSION, tmp_path / "out", with_files=True)
        assert path.read_text() == "mine"
        assert list(tree(tmp_path / "out")) == [f"{SESSION}/tool-results/toolu_1.txt"]

    @pytest.mark.parametrize("place", ["file.txt/out.jsonl", "x" * 300])
    def test_a_place_where_nothing_can_be_written_is_told(self, session: Home, tmp_path: Path, place: str) -> None:
        (tmp_path / "file.txt").touch()
        with session.open() as index, pytest.raises(InvalidRequest):
            index.export(SESSION, tmp_path / place)

    def test_an_unknown_format_is_told(self, session: Home) -> None:
        with session.open() as index, pytest.raises(InvalidRequest, match="there is no format 'xml'"):
            index.export(SESSION, BytesIO(), format="xml")

    def test_no_name_leads_out_of_the_folder(self, session: Home, tmp_path: Path) -> None:
        with session.open() as index:
            with database_of(index).write() as connection:
                connection.exec_driver_sql("UPDATE files SET name = '../../evil.txt' WHERE name LIKE 'tool-results/%'")
            with pytest.raises(InvalidRequest, match="leads out of the folder"):
                index.export(SESSION, tmp_path / "a" / "b" / "out", with_files=True)
        assert list(tmp_path.rglob("evil.txt")) == []


class TestRestore:
    def test_a_session_that_is_gone_comes_back_with_all_its_files(self, session: Home) -> None:
        before = tree(session.projects)
        session.path(SESSION).unlink()
        shutil.rmtree(session.projects / KEY / SESSION)
        with session.open(fresh=True) as index:
            index.sync()
            assert index.session(SESSION).state == "gone"
            assert len(index.restore(SESSION)) == 7
            assert index.session(SESSION).state == "live"
            assert not index.sync().changed
        assert tree(session.projects) == before

    def test_a_session_whose_project_is_gone_comes_back(self, session: Home) -> None:
        before = tree(session.projects)
        shutil.rmtree(session.projects / KEY)
        with session.open(fresh=True) as index:
            index.restore(SESSION)
            index.restore(session_id(2))
        assert tree(session.projects) == before

    def test_nothing_that_stands_is_written_over(self, session: Home) -> None:
        with session.open() as index:
            with pytest.raises(FileExists):
                index.restore(SESSION)
            session.path(SESSION).unlink()
            mine = session.write(b"mine", f"{SESSION}/tool-results/toolu_1.txt")
            assert str(mine.resolve()) not in index.restore(SESSION)
        assert mine.read_bytes() == b"mine"
        assert session.path(SESSION).read_bytes() == Log().turns(3).data

    def test_a_sub_agent_is_not_restored_alone(self, session: Home) -> None:
        path = session.path(f"{SESSION}/subagents/agent-a1.jsonl")
        path.unlink()
        with session.open() as index, pytest.raises(InvalidRequest, match="restore its session instead"):
            index.restore(str(path))
