"""The commands: what each writes for a person and for a program, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from tests.builders import KEY, Home, Log, call, result, session_id
from tests.shell import FIX, SAMPLE, SQLITE, WATCH, WORDS, client_folder, objects, run
from transcripts.index import database


@pytest.fixture(autouse=True)
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe: no width is set."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def sample(apart: Path) -> Path:
    """The sample, in the place of the user's own transcripts."""
    return client_folder(apart)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def transcript(sample: Path, session: str) -> Path:
    return next((sample / "projects").glob(f"*/{session}*.jsonl"))


class TestSync:
    def test_without_a_path_takes_the_folder_of_the_client(self, sample: Path) -> None:
        assert objects("sync")[0]["new"] == 6
        assert run("sync").stdout == "6 files: nothing new.\n"

    def test_honours_the_config_dir_of_the_client(self, apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(shutil.copytree(SAMPLE, apart / "elsewhere")))
        assert objects("sync")[0]["new"] == 6

    def test_without_a_path_also_takes_what_was_synced_before(self, sample: Path, home: Home) -> None:
        home.write(Log().turns(1))
        run("sync", home.projects)
        home.write(Log().turns(2))
        report = objects("sync")[0]
        assert (report["new"], report["grown"]) == (6, 1)

    def test_tells_damaged_lines_and_goes_on(self, home: Home) -> None:
        home.write(b"[1]\n" + Log().turns(1).data)
        done = run("sync", home.projects)
        assert "no JSON object: [1]" in done.stderr
        assert done.exit_code == 0

    @pytest.mark.parametrize("name", ["missing", "empty"])
    def test_a_path_with_nothing_to_read_ends_with_1(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "empty").mkdir()
        done = run("sync", tmp_path / name)
        assert done.exit_code == 1
        assert done.stderr

    def test_without_any_folder_says_what_to_do(self) -> None:
        done = run("sync")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "transcripts sync PATH" in done.stderr


class TestList:
    def test_imports_first_and_shows_the_newest_first(self, sample: Path) -> None:
        lines = run("list").stdout.splitlines()
        assert [line[:8] for line in lines[1:]] == [WORDS, SQLITE, WATCH, FIX]

    def test_shows_title_tag_project_and_number_of_messages(self, sample: Path) -> None:
        line = next(line for line in run("list").stdout.splitlines() if line.startswith(WATCH))
        assert line.split()[3:] == ["/home/dev/kettle", "10", "kettle", "brew", "--watch", "#feature"]

    def test_shortens_the_home_folder(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/dev")
        home.write(Log().turns(1))
        run("sync", home.projects)
        assert "  ~/shop  " in run("list").stdout

    def test_filters_by_project_tag_and_number(self, sample: Path) -> None:
        assert [info["id"][:8] for info in objects("list", "--project", "orchard")] == [SQLITE, FIX]
        assert [info["id"][:8] for info in objects("list", "--tag", "feature")] == [WATCH]
        assert [info["id"][:8] for info in objects("list", "--limit", "1")] == [WORDS]

    @pytest.mark.usefixtures("berlin", "sample")
    def test_a_day_means_the_user_s_own_day(self) -> None:
        last = next(info for info in objects("list") if info["id"].startswith(SQLITE))["last_activity_at_iso"]
        assert last.startswith("2026-06-02T08:05")  # 10:05 in Berlin
        assert len(objects("list", "--since", "2026-06-02T10:06")) == 1
        assert len(objects("list", "--since", "2026-06-02T10:05")) == 2
        assert len(objects("list", "--until", "2026-06-02")) == 3
        assert len(objects("list", "--until", "2026-06-01")) == 2
        assert "2026-06-02 10:05" in run("list").stdout

    def test_takes_spans_and_names_of_days(self, home: Home) -> None:
        home.write(Log(start=time.time() - 1772359200 - 3 * 86400).turns(1))  # three days ago
        run("sync", home.projects)
        assert [run("list", "--since", span).exit_code for span in ("4d", "1w", "2d", "yesterday", "70h")] == [0, 0, 1, 1, 1]

    @pytest.mark.parametrize("value", ["soon", "99999999d", "2026-13-01"])
    def test_a_time_that_is_none_is_wrong_usage(self, value: str) -> None:
        assert run("list", "--since", value).exit_code == 2

    def test_leaves_out_sessions_without_a_message_unless_asked(self, home: Home) -> None:
        log = Log()
        log.title("only a title")
        home.write(log)
        run("sync", home.projects)
        assert run("list").exit_code == 1
        assert "only a title" in run("list", "--all").stdout

    def test_marks_damaged_and_vanished_transcripts(self, home: Home) -> None:
        path = home.write(b"[1]\n[2]\n" + Log().turns(1).data)
        run("sync", home.projects)
        path.unlink()
        assert "  gone !2  " in run("list").stdout

    def test_shows_as_much_of_the_ids_as_tells_them_apart(self, home: Home) -> None:
        for number in (1, 2):
            home.write(Log(session_id(number)).turns(1))
        run("sync", home.projects)
        assert sorted(line.split()[0] for line in run("list").stdout.splitlines()[1:]) == [session_id(1), session_id(2)]

    @pytest.mark.parametrize("columns", [80, 160])
    def test_fits_the_columns_there_are(self, sample: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, run("list").stdout.splitlines())) <= columns

    def test_without_a_session_ends_with_1_and_says_what_to_do(self) -> None:
        done = run("list")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "transcripts sync" in done.stderr


class TestNames:
    @pytest.mark.parametrize("name", [FIX, "Fix the empty Monday delivery report"])
    def test_a_session_is_named_by_the_beginning_of_its_id_or_its_title(self, sample: Path, name: str) -> None:
        assert objects("show", name)[0]["id"].startswith(FIX)

    def test_a_session_is_named_by_its_path_or_as_the_latest(self, sample: Path) -> None:
        assert objects("show", transcript(sample, FIX))[0]["id"].startswith(FIX)
        assert objects("show", "latest")[0]["id"].startswith(WORDS)

    def test_an_ambiguous_name_lists_what_it_could_be(self, home: Home) -> None:
        for number in (1, 2):
            home.write(Log(session_id(number)).turns(1))
        run("sync", home.projects)
        done = run("show", session_id(1)[:-1])
        assert done.exit_code == 1
        assert session_id(1) in done.stderr
        assert session_id(2) in done.stderr

    def test_of_one_session_in_two_projects_it_is_said_which_was_taken(self, home: Home) -> None:
        older, newer = home.write(Log().turns(1)), home.write(Log().turns(2), key="-home-dev-other")
        run("sync", home.projects)
        done = run("show", session_id(1))
        assert f"taken: {newer}" in done.stderr
        assert f"not taken: {older}" in done.stderr

    @pytest.mark.parametrize("command", ["show", "resume", "export", "restore"])
    def test_a_name_of_nothing_ends_with_1(self, sample: Path, command: str) -> None:
        done = run(command, "nothing")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "transcripts list" in done.stderr


class TestShow:
    def test_tells_the_facts(self, sample: Path) -> None:
        told = run("show", WORDS).stdout
        for fact in ("kettle in vier Sprachen", "/home/dev/kettle", "sub-agent", "claude-", "7 messages", ".jsonl"):
            assert fact in told

    def test_names_damaged_places(self, home: Home) -> None:
        path = home.write(b"[1]\n" + Log().turns(1).data)
        run("sync", home.projects)
        assert f"{path}:0: no JSON object: [1]" in run("show", "latest").stdout
        assert objects("show", "latest")[0]["problems"][0]["offset"] == 0


class TestResume:
    def test_text_tells_who_said_what_and_when(self, sample: Path, berlin: None) -> None:
        told = run("resume", FIX).stdout
        for part in (
            "Monday 2026-03-09",
            "09:12:07  user        The delivery report is empty every Monday morning.",
            "assistant   (thinking) Only on Mondays",
            "Bash(pytest -q tests/test_report.py -k monday)",
            "more lines",
        ):
            assert part in told

    def test_text_marks_what_was_recovered_of_a_parallel_reply(self, home: Home) -> None:
        log = Log()
        log.user("go")
        one = log.assistant([call("a")], id="m")
        two = log.assistant([call("b")], id="m")
        log.chain("user", message={"role": "user", "content": [result("b", "beta")]}, parentUuid=two)
        log.chain("user", message={"role": "user", "content": [result("a", "alpha")]}, parentUuid=one)
        log.assistant("both done")
        home.write(log)
        run("sync", home.projects)
        lines = run("resume", "latest").stdout.splitlines()
        assert [line[22:] for line in lines if "(recovered)" in line] == ["(recovered) Bash()", "(recovered) Bash: beta"]

    def test_text_in_a_pipe_is_not_broken_into_lines(self, home: Home) -> None:
        words = "word " * 100 + "end"
        log = Log()
        log.user(words)
        home.write(log)
        run("sync", home.projects)
        assert words in run("resume", "latest").stdout

    @pytest.mark.parametrize("columns", [80, 160])
    def test_text_wraps_at_the_columns_there_are(self, sample: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, run("resume", FIX).stdout.splitlines())) in range(columns - 20, columns + 1)

    def test_jsonl_writes_the_records_as_they_stand(self, sample: Path) -> None:
        written = run("resume", SQLITE, "--format", "jsonl").stdout_bytes.splitlines()
        assert set(written) <= set(transcript(sample, SQLITE).read_bytes().splitlines())
        assert [json.loads(line)["uuid"] for line in written] == run("resume", SQLITE, "--format", "uuids").stdout.split()

    def test_json_has_an_object_a_message(self, sample: Path) -> None:
        data = transcript(sample, FIX).read_bytes()
        for entry in objects("resume", FIX):
            record = json.loads(data[entry["offset"] : entry["offset"] + entry["length"]])
            assert (record["uuid"], record["timestamp"]) == (entry["uuid"], entry["timestamp_iso"])

    def test_last_and_leaf_choose_the_end(self, sample: Path) -> None:
        uuids = run("resume", FIX, "--format", "uuids").stdout.split()
        assert run("resume", FIX, "--format", "uuids", "--last", "3").stdout.split() == uuids[-3:]
        assert run("resume", FIX, "--format", "uuids", "--leaf", uuids[0]).stdout.split() == uuids[:1]

    def test_without_a_conversation_ends_with_1_and_says_why(self, home: Home) -> None:
        log = Log()
        log.title("only a title")
        home.write(log)
        run("sync", home.projects)
        done = run("resume", session_id(1))
        assert (done.exit_code, done.stdout) == (1, "")
        assert "no conversation" in done.stderr

    def test_json_and_a_format_exclude_each_other(self, sample: Path) -> None:
        assert run("resume", FIX, "--json", "--format", "uuids").exit_code == 2


class TestExport:
    @pytest.mark.parametrize("session", [FIX, SQLITE, WATCH, WORDS])
    def test_writes_the_bytes_of_the_file_also_when_it_is_gone(self, sample: Path, session: str) -> None:
        path = transcript(sample, session)
        data = path.read_bytes()
        assert run("export", session).stdout_bytes == data
        path.unlink()
        assert run("export", session).stdout_bytes == data

    def test_into_a_file_says_so_and_never_writes_over_one(self, sample: Path, tmp_path: Path) -> None:
        out = tmp_path / "copy.jsonl"
        assert objects("export", FIX, "-o", out) == [{"path": str(out), "size": out.stat().st_size}]
        again = run("export", FIX, "-o", out)
        assert again.exit_code == 1
        assert "not overwritten" in again.stderr

    def test_with_files_brings_the_sub_agents(self, sample: Path, tmp_path: Path) -> None:
        run("export", WORDS, "--with-files", tmp_path / "out")
        lies = sample / "projects" / "-home-dev-kettle"
        written = {path.relative_to(tmp_path / "out"): path.read_bytes() for path in (tmp_path / "out").rglob("*.json*")}
        assert len(written) == 3
        assert written == {name: (lies / name).read_bytes() for name in written}

    def test_gives_an_older_version_of_a_rewritten_file(self, home: Home, tmp_path: Path) -> None:
        first = home.write(Log().turns(2)).read_bytes()
        run("sync", home.projects)
        home.write(Log(first=50).turns(1))
        assert run("export", session_id(1), "--version", "1").stdout_bytes == first

    def test_a_restored_session_lies_where_it_lay(self, sample: Path) -> None:
        path = transcript(sample, WORDS)
        run("sync")
        data = path.read_bytes()
        path.unlink()
        shutil.rmtree(path.with_suffix(""))
        assert len(run("restore", WORDS).stdout.splitlines()) == 3
        assert path.read_bytes() == data
        assert run("restore", WORDS).exit_code == 1

    def test_json_without_a_file_and_two_places_are_wrong_usage(self, sample: Path) -> None:
        assert run("export", FIX, "--json").exit_code == 2
        assert run("export", FIX, "-o", "a", "--with-files", "b").exit_code == 2


class TestSql:
    ODD = "SELECT 1 AS a, 'x,y' AS a, x'00ff' AS b, NULL AS c, 9e999 AS d"

    def test_writes_a_table_csv_or_json(self) -> None:
        assert run("sql", self.ODD).stdout.splitlines()[1].split() == ["1", "x,y", "00ff", "inf"]
        assert run("sql", self.ODD, "--format", "csv").stdout == 'a,a,b,c,d\n1,"x,y",00ff,,inf\n'
        assert objects("sql", self.ODD) == [{"a": 1, "a_2": "x,y", "b": "00ff", "c": None, "d": "inf"}]

    @pytest.mark.parametrize("arguments", [["sql", "-"], ["sql"]])
    def test_takes_the_statement_from_a_pipe(self, arguments: list[str]) -> None:
        assert "42" in run(*arguments, stdin="SELECT 42").stdout

    @pytest.mark.parametrize("statement", ["DELETE FROM files", "SELECT nothing", "PRAGMA user_version = 3"])
    def test_what_would_write_or_makes_no_sense_is_refused(self, statement: str) -> None:
        done = run("sql", statement)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: ")

    def test_no_statement_is_wrong_usage(self) -> None:
        assert run("sql", stdin="").exit_code == 2


class TestCare:
    def test_a_sound_database_of_sound_files_is_verified_with_0(self, sample: Path) -> None:
        done = run("verify")
        assert (done.exit_code, done.stdout) == (0, "Database: sound\nFiles: sound\n")

    def test_damage_in_files_is_named_and_ends_with_1(self, home: Home) -> None:
        path = home.write(b"[1]\n" + Log().turns(1).data)
        run("sync", home.projects)
        assert [(problem["kind"], problem["path"]) for problem in objects("verify", code=1)] == [("file", str(path))]

    def test_a_rebuild_changes_no_answer(self, sample: Path) -> None:
        before = run("list", "--json").stdout
        assert run("rebuild").exit_code == 0
        assert run("list", "--json").stdout == before
        assert run("verify").exit_code == 0


class TestOptions:
    def test_common_options_stand_before_or_after_the_command(self, home: Home, tmp_path: Path) -> None:
        home.write(Log().turns(1))
        run("sync", home.projects, "--db", tmp_path / "one.db")
        after = run("list", "--json", "--no-sync", "--db", tmp_path / "one.db").stdout
        assert run("--json", "--no-sync", "--db", tmp_path / "one.db", "list").stdout == after != ""
        assert run("--db", tmp_path / "two.db", "list", "--json", "--db", tmp_path / "one.db").stdout == after

    def test_the_environment_names_the_database(self, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRANSCRIPTS_DB", str(tmp_path / "named.db"))
        run("sync")
        assert (tmp_path / "named.db").exists()

    def test_no_sync_answers_from_what_was_there(self, home: Home) -> None:
        home.write(Log().turns(1))
        run("sync", home.projects)
        home.write(Log().turns(2))
        assert objects("list", "--no-sync")[0]["message_count"] == 2
        assert objects("list")[0]["message_count"] == 4

    def test_a_question_beside_a_busy_writer_is_answered_and_called_so(self, home: Home) -> None:
        home.write(Log().turns(1))
        run("sync", home.projects, "--db", home.db)
        home.write(Log().turns(2))
        with FileLock(f"{home.db}.lock"):
            done = run("list", "--db", home.db)
        assert done.exit_code == 0
        assert "Another process is importing" in done.stderr

    def test_a_busy_database_ends_with_75(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.1)
        home.write(Log().turns(1))
        run("sync", home.projects, "--db", home.db)
        home.write(Log().turns(2))
        with FileLock(f"{home.db}.lock"):
            done = run("sync", "--db", home.db)
        assert done.exit_code == 75
        assert "try again" in done.stderr

    @pytest.mark.parametrize("arguments", [["nonsense"], ["list", "--nonsense"], ["show"], ["list", "--limit", "-1"]])
    def test_wrong_usage_ends_with_2(self, arguments: list[str]) -> None:
        assert run(*arguments).exit_code == 2

    def test_a_file_that_is_no_database_is_named_without_a_traceback(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("no database " * 1000)
        done = run("list", "--db", tmp_path / "text")
        assert done.exit_code == 1
        assert "cannot be used as a database" in done.stderr


class TestDemo:
    def test_without_transcripts_shows_the_sample_and_leaves_nothing_behind(self, apart: Path) -> None:
        done = run("demo")
        assert done.exit_code == 0
        assert done.stdout.count("$ transcripts ") == 6
        assert "bytes, equal." in done.stdout
        assert os.listdir(apart) == []

    def test_with_transcripts_takes_them(self, apart: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(3))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.root))
        done = run("demo")
        assert done.exit_code == 0
        assert f"transcripts resume {session_id(1)[:8]}" in done.stdout
        assert [info["project_key"] for info in objects("list")] == [KEY]

    def test_json_tells_each_command_and_the_comparison(self) -> None:
        told = objects("demo")
        assert [step.get("exit_code") for step in told] == [0, 0, 0, 0, 0, None, 0]
        assert told[5]["equal"] is True
