"""A file that was rewritten: both texts are kept, what is lost stays found, and no total changes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Home, Lab, Log, call, count, database_of, differing, result, rows, session_id, uuid
from tests.soup import transcripts
from transcripts.api import Index
from transcripts.files import reader
from transcripts.index import importer, prepare
from transcripts.index.database import Database
from transcripts.index.schema import DERIVED_VERSION

OLD = (1_770_000_000, 1_770_000_000)


def exported(index: Index, session: str = session_id(1), version: int | None = None) -> bytes:
    out = BytesIO()
    index.export(session, out, version=version)
    return out.getvalue()


def totals(index: Index) -> list[tuple[Any, ...]]:
    return rows(index, "SELECT * FROM responses r JOIN files f ON f.id = r.owner ORDER BY response")


def tokens(index: Index) -> dict[str, int]:
    return dict(rows(index, "SELECT response, output_tokens FROM responses"))


def replied(number: int, *tokens: int) -> Log:
    """A session whose replies have so many tokens each."""
    log = Log(session_id(number), first=number * 100)
    log.user("ask")
    for at, amount in enumerate(tokens):
        log.assistant("tell", id=f"msg_{number}_{at}", requestId=f"req_{at}", tokens=amount)
    return log


class TestWhatIsAnotherText:
    def test_a_shorter_file_is(self, home: Home) -> None:
        log = Log().turns(3)
        home.write(log)
        home.sync()
        home.write(b"".join(line + b"\n" for line in log.lines[:2]))
        report = home.sync()
        assert (report.rewritten, report.new, report.grown) == (1, 0, 0)
        with home.open() as index:
            told = index.session(session_id(1))
            assert (told.versions, told.message_count, told.size) == (2, 2, len(log.lines[0]) + len(log.lines[1]) + 2)

    def test_a_file_of_the_same_size_and_time_is_when_its_bytes_are_others(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        os.utime(path, OLD)
        home.sync()
        path.write_bytes(path.read_bytes().replace(b"word", b"WORD"))
        os.utime(path, OLD)
        assert home.sync().rewritten == 1

    def test_a_longer_file_with_another_beginning_is(self, home: Home) -> None:
        home.write(Log().turns(1))
        home.sync()
        home.write(Log(first=50).turns(3))
        assert home.sync().rewritten == 1

    def test_a_longer_file_with_another_end_of_the_kept_part_is(self, home: Home) -> None:
        log = Log().turns(20)
        home.write(log)
        home.sync()
        home.write(log.data[:-30] + b" " * 30 + log.data)
        assert home.sync().rewritten == 1

    def test_a_touched_file_is_not(self, home: Home) -> None:
        path = home.write(Log().turns(1))
        home.sync()
        os.utime(path, OLD)
        report = home.sync()
        assert (report.changed, report.problems) == (False, [])

    def test_the_same_bytes_in_another_inode_are_not_and_grow_on(self, home: Home) -> None:
        log = Log().turns(2)
        path = home.write(log)
        home.sync()
        other = path.with_name("other.tmp")
        other.write_bytes(log.data)
        other.replace(path)
        assert not home.sync().changed
        home.write(log.turns(1))
        report = home.sync()
        assert (report.grown, report.rewritten) == (1, 0)
        other.write_bytes(log.turns(1).data)
        other.replace(path)
        report = home.sync()
        assert (report.grown, report.rewritten) == (1, 0)
        with home.open() as index:
            assert (index.session(session_id(1)).message_count, index.session(session_id(1)).versions) == (8, 1)

    def test_another_inode_with_another_middle_is_though_it_has_grown(self, home: Home) -> None:
        log = Log().turns(40)
        path = home.write(log)
        home.sync()
        other = path.with_name("other.tmp")
        middle = len(log.data) // 2
        other.write_bytes(log.data[:middle] + b"X" + log.data[middle + 1 :] + log.data)
        other.replace(path)
        assert home.sync().rewritten == 1

    def test_a_side_file_is_by_the_same_rules(self, home: Home) -> None:
        name = f"{session_id(1)}/tool-results/t.txt"
        home.write(Log().turns(1))
        for data, told in ((b"one", (1, 0, 0)), (b"one and more", (0, 1, 0)), (b"other", (0, 0, 1))):
            home.write(data, name)
            report = home.sync()
            assert (report.new - (data == b"one"), report.grown, report.rewritten) == told
        with home.open() as index:
            assert rows(index, "SELECT version, state, kept_size FROM files WHERE kind = 'side' ORDER BY version") == [
                (1, "replaced", 12),
                (2, "live", 5),
            ]


class TestWhatIsKept:
    def test_each_version_comes_out_byte_for_byte(self, home: Home) -> None:
        texts = [Log().turns(3).data, Log().turns(1).data, Log(first=70).turns(2).data, b"", Log().turns(3).data[:-7]]
        for data in texts:
            home.write(data)
            home.sync()
        with home.open() as index:
            versions = [exported(index, version=number) for number in range(1, count(index, "files") + 1)]
            assert [data for data in texts if data] == [data for data in versions if data]
            assert exported(index) == texts[-1]

    @settings(max_examples=30)
    @given(texts=st.lists(transcripts(max_lines=6), min_size=1, max_size=4))
    def test_any_texts_one_after_the_other_all_come_out_again(self, lab: Lab, texts: list[bytes]) -> None:
        home = lab.home("texts")
        expected: list[bytes] = []
        for data in texts:
            home.write(data)
            home.sync()
            if expected and data.startswith(expected[-1]):
                expected[-1] = data
            else:
                expected.append(data)
        with home.open() as index:
            versions = count(index, "files")
            assert [exported(index, str(home.path(session_id(1))), number) for number in range(1, versions + 1)] == expected
            assert index.damage() == []

    def test_versions_share_the_chunks_of_their_equal_beginning(self, home: Home) -> None:
        log = Log().turns(2000)
        home.write(log)
        home.sync()
        with home.open() as index:
            before = count(index, "chunks")
            home.write(b"".join(line + b"\n" for line in log.lines[:-1]))
            index.sync()
            assert count(index, "files") == 2
            assert count(index, "chunks") == before + 1

    def test_records_that_no_later_version_has_stay_and_the_others_are_there_once(self, home: Home) -> None:
        log = Log().turns(3)
        home.write(log)
        home.sync()
        home.write(b"".join(line + b"\n" for line in [*log.lines[:2], *Log(first=50).turns(1).lines]))
        home.sync()
        with home.open() as index:
            stand = rows(index, "SELECT f.version, m.uuid FROM messages m JOIN files f ON f.id = m.file ORDER BY 1, 2")
            assert stand == [*((1, uuid(at)) for at in (3, 4, 5, 6)), *((2, uuid(at)) for at in (1, 2, 50, 51))]
            words = rows(index, "SELECT count(*) FROM search WHERE search MATCH 'ask'")
            assert words == [(4,)]
            assert index.damage() == []

    def test_a_record_that_is_only_named_in_the_new_version_stays(self, home: Home) -> None:
        log = Log().turns(2)
        home.write(log)
        home.sync()
        home.write(b"".join(line + b"\n" for line in [log.lines[0], *log.lines[2:]]))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT version, state FROM messages m JOIN files f ON f.id = m.file WHERE uuid = ?", uuid(2)) == [
                (1, "replaced")
            ]

    def test_a_summary_of_the_old_version_titles_no_session_any_more(self, home: Home) -> None:
        home.write(Log(session_id(2), first=100).turns(1))
        log = Log(session_id(1))
        log.summary("From the other", leaf=uuid(100))
        home.write(log)
        home.sync()
        home.write(Log(session_id(1)).turns(1))
        home.sync()
        with home.open() as index:
            assert index.session(session_id(2)).title == "word 100 ask 0"
            assert index.damage() == []

    def test_a_project_that_no_session_names_any_more_is_none(self, home: Home) -> None:
        for folder in ("/home/dev/one", "/home/dev/two"):
            log = Log(common={"cwd": folder})
            log.user(folder)
            home.write(log)
            home.sync()
        with home.open() as index:
            assert rows(index, "SELECT path FROM projects") == [("/home/dev/two",)]

    def test_a_session_is_listed_at_every_moment_while_it_is_read_anew(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(30))
        home.sync()
        home.write(Log(first=500).turns(40))
        monkeypatch.setattr(prepare, "BATCH_BYTES", 1)
        monkeypatch.setattr(reader, "BLOCK_SIZE", 4096)
        seen: list[list[int]] = []
        with home.open() as index, home.open() as watching, monkeypatch.context() as patched:
            patched.setattr(Database, "write", _watched(Database.write, database_of(index), watching, seen))
            index.sync()
        assert len(seen) > 4
        assert all(len(counts) == 1 and counts[0] > 0 for counts in seen), seen


def _watched(write: Any, database: Database, watching: Index, seen: list[list[int]]) -> Any:
    """`Database.write`, and a look at the list after each transaction."""

    @contextmanager
    def watched(self: Database) -> Any:
        with write(self) as connection:
            yield connection
        if self is database:
            seen.append([told.message_count for told in watching.sessions()])

    return watched


class TestInterrupted:
    def test_a_version_that_was_replaced_before_it_was_read_is_read_late_and_thinned_out(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Log().turns(1500)  # more than a chunk, so that the second version shares some bytes before it is read
        home.write(log)
        home.sync()
        home.write(log.data[:-9])
        with home.open() as index, monkeypatch.context() as patched:
            patched.setattr(importer._Import, "run", _stop)
            with pytest.raises(KeyboardInterrupt):
                index.sync()
        home.write(log.data.replace(b"ask 3", b"ASK 3"))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT version, state, derived_version FROM files ORDER BY version") == [
                (1, "replaced", DERIVED_VERSION),
                (2, "replaced", DERIVED_VERSION),
                (3, "live", DERIVED_VERSION),
            ]
            assert rows(index, "SELECT count(*), count(DISTINCT uuid) FROM messages") == [(3000, 3000)]
            assert index.damage() == []


def _stop(*_arguments: object) -> None:
    raise KeyboardInterrupt


class TestTotals:
    """`responses` is the same whatever happens to the files, and in whatever order they come."""

    def test_a_rewritten_file_changes_no_total(self, home: Home) -> None:
        home.write(replied(1, 10, 20, 30))
        home.sync()
        with home.open() as index:
            before = tokens(index)
            home.write(replied(1, 10))
            index.sync()
            assert tokens(index) == before
            home.write(replied(2, 5))
            home.write(Log(session_id(1), first=900).turns(1))
            index.sync()
            assert tokens(index).items() >= before.items()
            assert index.damage() == []

    def test_a_vanished_file_changes_no_total(self, home: Home) -> None:
        path = home.write(replied(1, 10, 20))
        home.sync()
        with home.open() as index:
            before = totals(index)
            path.unlink()
            index.sync()
            assert tokens(index) == {row[0]: row[5] for row in before}

    def test_a_copy_changes_no_total(self, home: Home) -> None:
        home.write(replied(1, 10, 20))
        home.sync()
        with home.open() as index:
            before = tokens(index)
            home.write(replied(1, 10, 20), key="-copy")
            home.write(replied(1, 10, 20).data, session_id(9))
            index.sync()
            assert tokens(index) == before
            assert rows(index, "SELECT sum(output_tokens) FROM usage") == [(90,)]

    def test_a_fork_without_request_ids_names_the_lines_it_comes_from(self, home: Home) -> None:
        log, fork = Log(session_id(1)), Log(session_id(2), first=500)
        log.assistant("tell", id="msg", tokens=7)
        fork.assistant("tell", id="msg", tokens=7, forkedFrom={"sessionId": session_id(1), "messageUuid": uuid(1)})
        fork.assistant("more", id="msg_2", tokens=8)
        home.write(log)
        home.write(fork)
        home.sync()
        with home.open() as index:
            assert sorted(tokens(index).values()) == [7, 8]

    def test_of_several_lines_of_a_response_the_last_counts_and_over_files_the_fullest(self, home: Home) -> None:
        for number, amounts in ((1, (2, 2, 412)), (2, (2, 2)), (3, (2, 9))):
            log = Log(session_id(number), first=number * 10, start=number)
            for amount in amounts:
                log.assistant("part", id="msg", requestId="req", tokens=amount)
            home.write(log)
        home.sync()
        with home.open() as index:
            assert list(tokens(index).values()) == [412]
            assert rows(index, "SELECT session_id FROM responses JOIN files f ON f.id = owner") == [(session_id(1),)]

    def test_a_response_is_partial_until_a_line_has_a_stop_reason(self, home: Home) -> None:
        log = Log()
        message = {"role": "assistant", "id": "msg", "content": [], "usage": {"output_tokens": 3}}
        log.chain("assistant", message=message)
        home.write(log)
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT is_partial FROM responses") == [(1,)]
            log.chain("assistant", message=message | {"stop_reason": "end_turn"})
            log.chain("assistant", message=message)
            home.write(log)
            index.sync()
            assert rows(index, "SELECT is_partial FROM responses") == [(0,)]

    @settings(max_examples=24)
    @given(
        files=st.permutations([replied(1, 10, 20), replied(2, 5), replied(1, 10, 25, 1), replied(3, 1)]),
        names=st.permutations([1, 2, 3, 4]),
    )
    def test_the_order_of_import_changes_no_total(self, lab: Lab, files: list[Log], names: list[int]) -> None:
        home = lab.home("order")
        for log, name in zip(files, names, strict=True):
            home.write(log.data, session_id(name))
            home.sync(home.path(session_id(name)))
        with home.open() as index:
            assert sorted(tokens(index).values()) == [1, 1, 5, 10, 25]
            assert index.damage() == []

    def test_tool_calls_of_a_rewritten_file_are_those_of_its_newest_version(self, home: Home) -> None:
        log = Log()
        log.assistant([call("t1"), call("t2")])
        log.user([result("t1")])
        home.write(log)
        home.sync()
        home.write(b"".join(line + b"\n" for line in log.lines[:1]))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT tool_use_id, result_entry FROM tool_calls ORDER BY 1") == [("t1", None), ("t2", None)]


class TestAfterRebuild:
    def test_all_versions_and_what_is_left_of_them_are_as_before(self, home: Home, tmp_path: Path) -> None:
        log = Log().turns(4)
        for data in (log.data, log.data[:1500], Log(first=50).turns(2).data + log.data[:700], b"", log.data[700:]):
            home.write(data)
            home.sync()
        before = home.state()
        with home.open() as index:
            index.rebuild()
        assert differing(home.state(), before) == []
