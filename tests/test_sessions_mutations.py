"""Titles, tags and deletion: lines that the client and the SDK read, and an archive that stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import CASES, Home, Log, dumps, rows, session_id, uuid
from transcripts import Index, InvalidRequest, NotFound
from transcripts.files import removal
from transcripts.sessions.mutations import clean_tag

SESSION = session_id(1)


@pytest.fixture
def path(home: Home) -> Path:
    path = home.write(Log().turns(1))
    home.sync()
    return path


class TestTitleAndTag:
    def test_a_title_is_the_line_that_the_client_writes(self, home: Home, path: Path) -> None:
        before = path.read_bytes()
        with home.open() as index:
            index.rename(SESSION, "  Überblick \ud83d ")
            assert index.session(SESSION).title == "Überblick �"
            assert index.session(SESSION).title_kind == "custom-title"
        line = f'{{"type":"custom-title","customTitle":"Überblick \\ud83d","sessionId":"{SESSION}"}}\n'
        assert path.read_bytes() == before + line.encode()

    def test_the_last_title_counts_and_finds_the_session(self, home: Home, path: Path) -> None:
        with home.open() as index:
            index.rename(SESSION, "One")
            index.rename("One", "Two")
            assert index.session("Two").id == SESSION
            with pytest.raises(NotFound):
                index.session("One")

    def test_a_tag_is_the_line_that_the_sdk_looks_for(self, home: Home, path: Path) -> None:
        with home.open() as index:
            index.tag(SESSION, " re\u200bports\ufeff ")
            assert [info.id for info in index.sessions(tag="reports")] == [SESSION]
            index.untag(SESSION)
            assert index.session(SESSION).tag is None
        tagged, cleared = path.read_bytes().splitlines()[-2:]
        assert tagged == f'{{"type":"tag","tag":"reports","sessionId":"{SESSION}"}}'.encode()
        assert cleared == f'{{"type":"tag","tag":"","sessionId":"{SESSION}"}}'.encode()

    @pytest.mark.parametrize(
        ("given", "stored"),
        [("ﬁx", "fix"), ("\u202eabc\u2069", "abc"), ("a\ue000b", "ab"), ("é", "é"), ("\u00ad", ""), ("日本", "日本")],
    )
    def test_tags_are_in_one_form_and_can_be_seen(self, given: str, stored: str) -> None:
        assert clean_tag(given) == stored

    def test_what_is_empty_is_refused(self, home: Home, path: Path) -> None:
        before = path.read_bytes()
        with home.open() as index:
            for call in (index.rename, index.tag):
                with pytest.raises(InvalidRequest, match="at least one character"):
                    call(SESSION, " \n")
            with pytest.raises(InvalidRequest):
                index.tag(SESSION, "\u200b")
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "unseen", ["\u200b", "\u00ad \u2060", "\u3164", "\u2800", "\ufe0f", "\u202e\u2069", "\x07", "\U000e0041"]
    )
    def test_what_cannot_be_seen_is_refused(self, home: Home, path: Path, unseen: str) -> None:
        before = path.read_bytes()
        with home.open() as index:
            for way in ("client", "sdk"):
                with pytest.raises(InvalidRequest, match="can be seen"):
                    index.fork(SESSION, way=way, title=unseen)
            for call in (index.rename, index.tag):
                with pytest.raises(InvalidRequest, match="can be seen"):
                    call(SESSION, unseen)
            for title in (f"{unseen}a", f"{unseen}\U0001f36a", f"{unseen}\ue0b0"):
                index.rename(SESSION, title)
                assert index.session(SESSION).title is not None
        assert path.read_bytes().startswith(before)
        assert len(list(path.parent.iterdir())) == 1

    def test_a_torn_line_is_not_swallowed(self, home: Home, path: Path) -> None:
        torn = path.read_bytes() + b'{"type":"user","uuid":"'
        path.write_bytes(torn)
        with home.open(fresh=True) as index:
            index.rename(SESSION, "Title")
            assert index.session(SESSION).title == "Title"
        assert path.read_bytes().startswith(torn + b'\n{"type":"custom-title"')

    def test_another_machines_session_is_left_to_it(self, home: Home, path: Path) -> None:
        with Index.open(home.db, fresh=False, source="desk") as desk:
            for call in (desk.untag, desk.delete, desk.fork, desk.adopt):
                with pytest.raises(InvalidRequest, match="lies on local"):
                    call(SESSION)
        assert path.exists()

    def test_a_sub_agents_transcript_has_none(self, home: Home) -> None:
        agent = home.write(Log().turns(1).data, f"{SESSION}/subagents/agent-x.jsonl")
        home.sync()
        with home.open() as index:
            for call in (index.untag, index.delete, index.fork, index.forget):
                with pytest.raises(InvalidRequest, match="sub-agent"):
                    call(str(agent))


class TestDelete:
    def test_the_files_go_and_the_archive_stays(self, home: Home) -> None:
        folder = CASES / "genuine" / "projects" / "-home-dev-code-g09"
        source = next(folder.glob("*.jsonl"))
        main = home.write(source.read_bytes(), source.stem)
        for file in (folder / source.stem).rglob("*.*"):
            home.write(file.read_bytes(), f"{source.stem}/{file.relative_to(folder / source.stem)}")
        home.write(b"big output", f"{source.stem}/tool-results/a.txt")
        with home.open(fresh=True) as index:
            index.sync([home.projects])
            before = [*index.resume(source.stem).lines()]
            files = sorted(str(path.resolve()) for path in main.parent.rglob("*.*"))
            assert index.delete(source.stem) == files
            assert list(main.parent.iterdir()) == []
            assert index.session(source.stem).state == "deleted"
            assert rows(index, "SELECT DISTINCT state FROM files") == [("deleted",)]
            assert [*index.resume(source.stem).lines()] == before
            index.sync()
            assert index.session(source.stem).state == "deleted"
            with pytest.raises(InvalidRequest, match="restore"):
                index.delete(source.stem)
            assert sorted(index.restore(source.stem)) == files
            assert main.read_bytes() == source.read_bytes()
            assert index.session(source.stem).state == "live"

    def test_what_was_not_imported_yet_is_kept_first(self, home: Home, path: Path) -> None:
        with path.open("ab") as file:
            file.write(dumps({"type": "custom-title", "customTitle": "Late", "sessionId": SESSION}) + b"\n")
        home.write(b"late output", f"{SESSION}/tool-results/b.txt")
        with home.open() as index:
            assert len(index.delete(SESSION)) == 2
            assert index.session(SESSION).title == "Late"
            assert len(index.restore(SESSION)) == 2

    def test_what_cannot_be_kept_stays(self, home: Home, path: Path) -> None:
        folder = home.path(SESSION).with_suffix("")
        (folder / "tool-results").mkdir(parents=True)
        outside = home.root / "outside.txt"
        outside.write_bytes(b"elsewhere")
        os.mkfifo(folder / "pipe")
        (folder / "linked").symlink_to(home.root)
        with home.open() as index:
            index.delete(SESSION)
        assert not path.exists()
        assert sorted(os.listdir(folder)) == ["linked", "pipe"]
        assert outside.read_bytes() == b"elsewhere"

    @pytest.mark.parametrize("fresh", [False, True])
    def test_what_a_link_leads_to_stays(self, home: Home, path: Path, fresh: bool) -> None:
        folders = [home.root / "other", path.with_name(session_id(2))]
        for at, folder in enumerate(folders):
            (folder / "subagents").mkdir(parents=True)
            (folder / "empty").mkdir()
            (folder / "notes.txt").write_bytes(b"elsewhere")
            (folder / "subagents" / "agent-q1.jsonl").write_bytes(Log(first=40 + at).turns(1).data)
            home.write(Log(first=1).turns(1))
            link = path.with_suffix("")
            link.symlink_to(folder)
            with home.open(fresh=fresh) as index:
                assert index.delete(SESSION) == [str(path.resolve())]
                assert sorted(os.listdir(folder)) == ["empty", "notes.txt", "subagents"]
                assert sorted(os.listdir(folder / "subagents")) == ["agent-q1.jsonl"]
                assert link.is_symlink()
                assert rows(index, "SELECT count(*) FROM files WHERE path LIKE '%/other/%'") == [(0,)]
                assert index.restore(SESSION) == [str(path.resolve())]
            link.unlink()

    def test_a_transcript_that_is_a_link_is_refused(self, home: Home, path: Path) -> None:
        aside = home.write(Log().turns(1).data, "aside", key="aside")
        path.unlink()
        path.symlink_to(aside)
        home.sync()
        with home.open() as index, pytest.raises(InvalidRequest, match="is a link"):
            index.delete(SESSION)
        assert path.is_symlink()
        assert aside.exists()

    def test_old_sub_agents_beside_the_transcript_go_too(self, home: Home, path: Path) -> None:
        before = home.write(Log(first=20, common={"agentId": "a"}).turns(1).data, "agent-a")
        other = home.write(Log(session_id(2), first=30, common={"agentId": "b"}).turns(1).data, "agent-b")
        home.sync()
        late = home.write(Log(first=40, common={"agentId": "c"}).turns(1).data, "agent-c")
        linked = path.with_name("agent-d.jsonl")
        linked.symlink_to(home.write(Log(first=50, common={"agentId": "d"}).turns(1).data, "agent-d", key="aside"))
        data = {file: file.read_bytes() for file in (path, before, late)}
        with home.open() as index:
            assert index.delete(SESSION) == sorted(str(file.resolve()) for file in data)
            assert sorted(path.parent.iterdir()) == [other, linked]
            assert rows(index, "SELECT count(*) FROM files WHERE agent_id = 'd'") == [(0,)]
            assert index.restore(SESSION) == sorted(str(file.resolve()) for file in data)
        assert {file: file.read_bytes() for file in data} == data

    def test_a_file_that_changes_at_the_last_moment_stays(self, home: Home, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = removal.remove

        def late(kept: Any, folder: str) -> list[str]:
            with path.open("ab") as file:
                file.write(b'{"type":"mode"}\n')
            return whole(kept, folder)

        monkeypatch.setattr(removal, "remove", late)
        with home.open(fresh=True) as index:
            assert index.delete(SESSION) == []
            assert index.session(SESSION).state == "live"
        assert path.exists()

    def test_other_sessions_stay(self, home: Home, path: Path) -> None:
        other = home.write(Log(session_id(2), first=10).turns(1))
        with home.open() as index:
            index.delete(SESSION)
            index.sync()
            assert {info.id: info.state for info in index.sessions()} == {SESSION: "deleted", session_id(2): "live"}
            assert index.damage() == []
            assert [entry.uuid for entry in index.resume(session_id(2)).entries] == [uuid(10), uuid(11)]
        assert other.exists()
