"""The small inputs of public fault reports, held to the values that are right for an import (tests/cases/faults)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import CASES, Home, rows
from transcripts.api import Index
from transcripts.sessions.catalog import SessionInfo

FAULTS = CASES / "faults"
FOLDERS = sorted(path.name for path in FAULTS.iterdir() if (path / "projects").is_dir())


@contextmanager
def imported(home: Home, case: str) -> Iterator[Index]:
    with home.open() as index:
        index.sync([FAULTS / case / "projects"])
        yield index


def make_input(home: Home, case: str, size: int) -> None:
    """Let a case write its session, which is too large to be kept."""
    folder = home.path("unused").parent
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, str(FAULTS / case / "make_input.py"), str(size)], check=True, cwd=folder)


def only(index: Index) -> SessionInfo:
    (session,) = index.sessions()
    return session


def by_start(index: Index) -> dict[int, SessionInfo]:
    """The sessions by the number that their id begins with, as the reports count them."""
    return {int(session.id[:8], 16): session for session in index.sessions()}


def lines_of(index: Index, where: str) -> list[int]:
    """The line numbers of the messages that meet a condition."""
    found = rows(index, f"SELECT e.line FROM messages m JOIN entries e ON e.id = m.entry WHERE {where} ORDER BY e.line")
    return [line for (line,) in found]


def matching(index: Index, words: str) -> list[int]:
    """The line numbers of the records that the search index finds."""
    found = rows(index, "SELECT e.line FROM search JOIN entries e ON e.id = search.rowid WHERE search MATCH ? ORDER BY 1", words)
    return [line for (line,) in found]


def parents(index: Index) -> dict[int, int | None]:
    """Line -> line of its parent, as the client links them."""
    return dict(rows(index, """
        SELECT e.line, p.line FROM messages m JOIN entries e ON e.id = m.entry
        LEFT JOIN messages n ON n.node = m.parent LEFT JOIN entries p ON p.id = n.entry
    """))  # fmt: skip


class TestEveryCase:
    @pytest.mark.parametrize("case", FOLDERS)
    def test_every_line_is_imported_and_comes_out_again_byte_for_byte(self, home: Home, case: str, tmp_path: Path) -> None:
        with imported(home, case) as index:
            for number, path in enumerate(sorted((FAULTS / case / "projects").rglob("*.jsonl"))):
                if path.name != "journal.jsonl":
                    index.export(str(path), tmp_path / str(number))
                    data = path.read_bytes()
                    assert (tmp_path / str(number)).read_bytes() == data
                    (told,) = rows(index, "SELECT count(DISTINCT line) FROM entries JOIN files f ON f.id = file WHERE path = ?",
                                   str(path.resolve()))  # fmt: skip
                    blank = sum(not line.strip() for line in data.split(b"\n")[:-1])
                    assert told[0] == data.count(b"\n"), f"{blank} blank"

    @pytest.mark.parametrize("case", FOLDERS)
    def test_the_database_agrees_with_its_bytes(self, home: Home, case: str) -> None:
        with imported(home, case) as index:
            assert index.damage() == []


class TestTitles:
    def test_titles_custom_beats_ai_wherever_it_stands_and_an_empty_one_clears(self, home: Home) -> None:
        with imported(home, "titles") as index:
            told = by_start(index)
            assert (told[17].title, told[17].title_kind) == ("My lamps", "custom-title")
            assert (told[18].title, told[18].title_kind) == ("first prompt about mugs", "prompt")
            kinds = dict(
                rows(index, "SELECT t.kind, title FROM titles t JOIN files f ON f.id = file WHERE session_id = ?", told[17].id)
            )
            assert kinds["ai-title"] == "Something else again"
            assert len(kinds) == 3 and kinds["agent-name"]

    def test_caveat_title_machine_text_is_no_prompt(self, home: Home) -> None:
        with imported(home, "caveat-title") as index:
            assert (only(index).first_prompt, only(index).title) == ("why is the kettle slow?",) * 2
            assert only(index).prompt_count == 1

    def test_summary_of_other_session_titles_the_session_whose_leaf_it_names(self, home: Home) -> None:
        with imported(home, "summary-of-other-session") as index:
            assert [(told.title, told.title_kind) for told in by_start(index).values()] == [
                ("Sorting spoons", "summary"),
                ("paint the fence", "prompt"),
            ]
            assert rows(index, "SELECT count(*) FROM summaries") == [(2,)]

    def test_glued_lines_the_second_object_of_a_line_counts(self, home: Home) -> None:
        with imported(home, "glued-lines") as index:
            told = only(index)
            assert (told.title, told.message_count, told.entry_count, told.problem_count) == ("Colour notes", 4, 5, 2)
            assert {problem.reason for problem in index.problems(told.id)} == {"2 objects on one line"}


class TestListing:
    def test_listing_files_decide_and_empty_sessions_are_listed(self, home: Home) -> None:
        with imported(home, "listing") as index:
            told = by_start(index)
            assert (told[20].message_count, told[20].is_empty) == (2, False)
            assert (told[21].title, told[21].is_empty) == ("ghost", True)

    def test_order_by_last_message_mtime_and_metadata_do_not_count(self, home: Home) -> None:
        shutil.copytree(FAULTS / "order-by-last-message" / "projects", home.projects)
        for name, time in (("0000002f", 1_770_000_000), ("0000002e", 1_772_323_200)):
            os.utime(next(home.projects.rglob(f"{name}*")), (time, time))
        with home.open() as index:
            index.sync([home.root])
            assert [int(told.id[:8], 16) for told in index.sessions()] == [47, 46]
        assert next(home.projects.rglob("0000002e*")).stat().st_mtime == 1_772_323_200

    def test_project_path_collision_a_project_is_the_directory_in_the_lines(self, home: Home) -> None:
        with imported(home, "project-path-collision") as index:
            assert {told.project for told in index.sessions()} == {
                "/code/외주/app",
                "/code/개인/app",
                "/code/my_app",
                "/code/my-app",
            }
            assert [told.first_prompt for told in index.sessions(project="/code/my_app")] == ["gamma"]
            assert {told.first_prompt for told in index.sessions(project="-code----app")} == {"alpha", "beta"}

    def test_subagents_belong_to_their_session_and_are_none(self, home: Home) -> None:
        with imported(home, "subagents") as index:
            told = by_start(index)
            assert {number: session.agent_count for number, session in told.items()} == {23: 2, 26: 0}
            assert told[23].path.endswith("00000017-1111-4111-8111-111111111111.jsonl")
            assert [session.message_count for session in told.values()] == [4, 4]


class TestDamage:
    def test_truncated_tail_is_pending_and_counts_once_when_it_is_finished(self, home: Home) -> None:
        name = "00000009-1111-4111-8111-111111111111"
        path = home.write((FAULTS / "truncated-tail/projects/-code-demo" / f"{name}.jsonl").read_bytes(), name)
        with home.open() as index:
            index.sync([home.projects])
            assert (only(index).message_count, only(index).unfinished) == (3, 210)
            assert [problem.reason for problem in index.faults()] == ["unfinished line"]
            path.write_bytes((FAULTS / "truncated-tail/later" / f"{name}.jsonl").read_bytes())
            assert index.sync().grown == 1
            assert (only(index).message_count, only(index).unfinished, only(index).versions) == (4, 0, 1)
            assert index.verify() == []

    def test_nul_line_is_a_problem_and_all_around_it_is_there(self, home: Home) -> None:
        with imported(home, "nul-line") as index:
            assert only(index).message_count == 4
            assert [(problem.reason, problem.length) for problem in index.verify()] == [("NUL bytes", 300)]

    def test_odd_shapes_are_told_each_and_keep_their_edges(self, home: Home) -> None:
        with imported(home, "odd-shapes") as index:
            starts = dict(rows(index, "SELECT offset, line FROM entries"))
            assert [starts[problem.offset] for problem in index.problems("latest")] == [2, 4, 5, 6, 7]
            assert parents(index) == {1: None, 2: 1, 3: 2, 4: 3}
            assert rows(index, "SELECT count(*) FROM messages WHERE 'None' IN (model, message_id, subtype)") == [(0,)]

    def test_dangling_parent_is_told_and_snapshots_have_an_id_space_of_their_own(self, home: Home) -> None:
        with imported(home, "dangling-parent") as index:
            told = only(index)
            assert (told.entry_count, told.message_count, told.missing_parent_count) == (5, 4, 1)
            assert [problem.reason for problem in index.verify()] == ["a parent that is not in the file"]
            assert rows(index, "SELECT count(*) FROM snapshots s JOIN messages m ON m.uuid = s.message_id") == [(1,)]

    def test_snapshot_ids_the_latest_of_each_message_stands(self, home: Home) -> None:
        with imported(home, "snapshot-ids") as index:
            assert only(index).message_count == 6
            latest = rows(index, "SELECT message_id, e.line FROM snapshots s JOIN entries e ON e.id = s.entry")
            assert len(latest) == len({key for key, _line in latest}) < 12
            assert parents(index)[min(parents(index))] is None

    def test_compact_phantom_parent_is_told(self, home: Home) -> None:
        with imported(home, "compact-phantom-parent") as index:
            assert (only(index).entry_count, only(index).missing_parent_count) == (8, 1)

    def test_compact_odd_boundaries_without_metadata_are_boundaries(self, home: Home) -> None:
        with imported(home, "compact-odd") as index:
            assert (only(index).compaction_count, only(index).missing_parent_count) == (2, 0)

    def test_duplicate_compact_record_is_two_lines_and_one_node(self, home: Home) -> None:
        with imported(home, "duplicate-compact-record") as index:
            assert (only(index).entry_count, only(index).compaction_count) == (6, 1)
            assert rows(index, "SELECT count(*) FROM messages WHERE subtype = 'compact_boundary'") == [(1,)]
            assert [problem.reason[:12] for problem in index.problems("latest")] == ["a uuid again"]

    def test_lone_surrogates_are_no_damage(self, home: Home) -> None:
        with imported(home, "lone-surrogate") as index:
            assert (only(index).message_count, index.verify()) == (4, [])

    @pytest.mark.parametrize("environment", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}])
    def test_utf8_bom_crlf_import_alike_under_any_locale(self, home: Home, environment: dict[str, str]) -> None:
        program = (
            "import sys\nfrom transcripts.api import Index\n"
            "with Index.open(sys.argv[1]) as index:\n"
            "    index.sync([sys.argv[2]])\n"
            "    (told,) = index.sessions()\n"
            "    assert (told.message_count, told.problem_count) == (4, 0), told\n"
            '    assert ascii(told.title).startswith("\'Gr\\\\xf6\\\\xdfe, na\\\\xefve, \\\\u6771\\\\u4eac"), ascii(told.title)\n'
        )
        command = [sys.executable, "-c", program, str(home.db), str(FAULTS / "utf8-bom-crlf")]
        subprocess.run(command, check=True, env=os.environ | environment)


class TestTools:
    def test_missing_tool_result_leaves_one_call_unanswered(self, home: Home) -> None:
        with imported(home, "missing-tool-result") as index:
            assert (only(index).tool_call_count, only(index).unanswered_count) == (3, 1)
            assert rows(index, "SELECT tool_use_id FROM tool_calls WHERE result_entry IS NULL") == [("toolu_0007_t3",)]

    def test_result_without_use_is_kept_beside_the_calls(self, home: Home) -> None:
        with imported(home, "result-without-use") as index:
            assert (only(index).tool_call_count, only(index).message_count) == (0, 3)
            assert rows(index, "SELECT tool_use_id FROM tool_calls WHERE call_entry IS NULL") == [("toolu_0008_lost",)]

    def test_parallel_tools_each_call_meets_its_own_result(self, home: Home) -> None:
        with imported(home, "parallel-tools") as index:
            met = rows(index, """
                SELECT c.line, r.line FROM tool_calls t JOIN entries c ON c.id = t.call_entry JOIN entries r
                ON r.id = result_entry ORDER BY 1
            """)  # fmt: skip
            assert met == [(2, 5), (3, 7), (4, 6)]


class TestProgress:
    def test_progress_bridge_leads_past_progress_lines(self, home: Home) -> None:
        with imported(home, "progress-bridge") as index:
            assert parents(index) == {1: None, 2: 1, 5: 2, 7: 5, 8: 7, 10: 8, 11: 10}

    def test_progress_bloat_fourteen_messages_among_thousands_of_lines_hang_on_each_other(self, home: Home) -> None:
        make_input(home, "progress-bloat", 7000)
        with home.open() as index:
            index.sync([home.projects])
            told = index.session("0000000e")
            assert (told.message_count, told.entry_count, told.missing_parent_count) == (14, 7014, 0)
            chain = list(parents(index).items())
            assert [parent for _line, parent in chain] == [None, *(line for line, _parent in chain[:-1])]

    def test_huge_line_is_one_message_and_indexed_up_to_a_limit(self, home: Home) -> None:
        make_input(home, "huge-line", 3_000_000)
        with home.open() as index:
            index.sync([home.projects])
            assert index.session("0000000d").message_count == 19
            assert rows(index, "SELECT max(length(result)) FROM search_source") == [(64 * 1024,)]
            assert matching(index, "diff") == [19]


class TestUsage:
    def test_usage_split_message_counts_the_last_line_of_each_reply(self, home: Home) -> None:
        with imported(home, "usage-split-message") as index:
            told = "SELECT sum(output_tokens), sum(input_tokens), sum(cache_write_5m_tokens + cache_write_1h_tokens), "
            told += "sum(cache_read_tokens) FROM "
            assert rows(index, told + "usage") == rows(index, told + "responses") == [(482, 6, 4000, 40000)]
            assert dict(rows(index, "SELECT message_id, output_tokens FROM usage")) == {"msg_0022": 412, "msg_0022e": 70}

    def test_resume_copies_file_counts_a_response_once_over_all_and_in_each(self, home: Home) -> None:
        with imported(home, "resume-copies-file") as index:
            assert rows(index, "SELECT sum(output_tokens) FROM responses") == [(15,)]
            each = "SELECT session_id, sum(output_tokens) FROM usage JOIN files f ON f.id = file GROUP BY 1 ORDER BY 1"
            assert [total for _session, total in rows(index, each)] == [7, 15]

    def test_subagents_are_counted_with_their_session(self, home: Home) -> None:
        with imported(home, "subagents") as index:
            told = rows(index, """
                SELECT session_id, kind, sum(output_tokens) FROM usage JOIN files f ON f.id = file GROUP BY 1, 2 ORDER BY 1, 2
            """)  # fmt: skip
            assert [(int(session[:8], 16), kind, total) for session, kind, total in told] == [
                (23, "agent", 77),
                (23, "main", 15),
                (26, "main", 35),
            ]
            side = "SELECT sum(u.output_tokens) FROM usage u JOIN messages m ON m.entry = u.entry JOIN files f ON f.id = u.file "
            side += "WHERE m.is_sidechain AND session_id = ?"
            assert rows(index, side, by_start(index)[26].id) == [(21,)]

    def test_cost_tables_models_stand_as_written_and_cache_writes_by_their_rate(self, home: Home) -> None:
        with imported(home, "cost-tables") as index:
            models = {model for (model,) in rows(index, "SELECT model FROM responses")}
            assert models >= {"claude-opus-9-9", "claude-opus-4", "claude-opus-4-5-20251101", "glm-5", "<synthetic>"}
            assert "<synthetic>" not in only(index).models
            split = rows(index, "SELECT cache_write_5m_tokens, cache_write_1h_tokens FROM responses")
            assert (400, 600) in split

    def test_timezone_days_instants_are_utc(self, home: Home) -> None:
        with imported(home, "timezone-days") as index:
            days = "SELECT date(timestamp / 1000, 'unixepoch', ?), sum(output_tokens) FROM responses GROUP BY 1 ORDER BY 1"
            assert rows(index, days, "+0 hours") == [("2026-03-23", 100), ("2026-03-29", 200)]
            assert rows(index, days, "+9 hours") == [("2026-03-24", 100), ("2026-03-29", 200)]
            assert rows(index, days, "-7 hours") == [("2026-03-23", 100), ("2026-03-28", 200)]


class TestSearch:
    @pytest.mark.parametrize(
        ("case", "words", "lines"),
        [
            ("api-error-retry-orphan", "heron", [2]),
            ("nul-codepoint", "zebra", [3]),
            ("lone-surrogate", '"보 유"', [3]),
            ("cjk-search", '"悬 空 引 用"', [1]),
            ("cjk-search", "itgc", [1]),
            ("cjk-search", '"评 审 会 议"', [2]),
            ("cjk-search", '"天 気 は ど う"', [3]),
            ("cjk-search", '"백 트 래 킹"', [4]),
            ("utf8-bom-crlf", "größe", [1, 2]),
            ("utf8-bom-crlf", "привет", [1]),
        ],
    )
    def test_words_behind_odd_characters_are_found(self, home: Home, case: str, words: str, lines: list[int]) -> None:
        with imported(home, case) as index:
            assert matching(index, words) == lines


class TestRewritten:
    def test_rewritten_file_each_step_is_what_stands_and_nothing_is_lost(self, home: Home, tmp_path: Path) -> None:
        name = "00000030-1111-4111-8111-111111111111"
        steps = [(FAULTS / "rewritten-file" / f"step{number}" / f"{name}.jsonl").read_bytes() for number in (1, 2, 3)]
        with home.open() as index:
            for number, data in enumerate(steps, 1):
                path = home.write(data, name)
                os.utime(path, (1_770_000_000, 1_770_000_000))
                assert index.sync([home.projects]).rewritten == (number > 1)
                assert (only(index).versions, only(index).message_count) == (number, data.count(b"\n"))
                assert matching(index, "TWO") == ([2] if number == 3 else [2] if b"two" in data else [])
            for number, data in enumerate(steps, 1):
                index.export(name, tmp_path / str(number), version=number)
                assert (tmp_path / str(number)).read_bytes() == data
            assert index.damage() == []
            assert lines_of(index, "m.file = (SELECT file FROM sessions)") == [1, 2, 3, 4]
