"""`sql` on the command line: where a statement comes from, how rows are written, and the prompt."""

from __future__ import annotations

import stat
from pathlib import Path

import platformdirs
import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.builders import Home, Log
from tests.shell import run
from transcripts.errors import QueryRefused
from transcripts.interfaces.cli.asking_sql import Names, ask

SELECT = "SELECT 1 AS one, 'a|b' AS two, NULL AS three"


@pytest.fixture(autouse=True)
def database(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    home.write(Log().turns(2))
    home.sync()
    monkeypatch.setenv("TRANSCRIPTS_DB", str(home.db))
    return home


def asked(typed: str, names: tuple[str, ...] = ()) -> list[str]:
    """The statements that a prompt runs when this is typed; one that is `bad` is refused."""
    ran: list[str] = []

    def take(statement: str) -> None:
        ran.append(statement)
        if statement == "bad":
            raise QueryRefused("no such thing")

    with create_pipe_input() as pipe:
        pipe.send_text(typed + "\x04")
        ask(take, names, input=pipe, output=DummyOutput())
    return ran


def test_a_statement_comes_from_a_file_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT count(*) AS n FROM v_prompts")
    told = run("sql", "--file", tmp_path / "q.sql", "--format", "csv").stdout
    assert told == run("sql", "--format", "csv", stdin="SELECT count(*) AS n FROM v_prompts").stdout == "n\n2\n"
    assert run("sql", "SELECT 1", "--file", tmp_path / "q.sql").exit_code == 2
    assert "No such file" in run("sql", "-f", tmp_path / "none").stderr


def test_markdown_is_a_table_whose_signs_are_no_markup() -> None:
    told = run("sql", SELECT, "--format", "markdown").stdout
    assert told == "| one | two | three |\n| ---: | --- | ---: |\n| 1 | a\\|b |  |\n"


def test_a_prompt_runs_statements_that_end_with_a_semicolon_or_an_empty_line() -> None:
    assert asked("SELECT 1;\rSELECT 2\rFROM t;\rSELECT 3\r\r") == ["SELECT 1", "SELECT 2\nFROM t", "SELECT 3"]


def test_a_refused_statement_ends_no_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("bad;\r\rSELECT 1;\r") == ["bad", "SELECT 1"]
    assert "Error: no such thing" in capsys.readouterr().err


def test_the_history_is_kept_for_its_user_alone() -> None:
    asked("SELECT 'secret';\r")
    path = Path(platformdirs.user_state_dir("transcripts")) / "sql_history"
    assert "secret" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert asked("\x1b[A\r") == ["SELECT 'secret'"]


def test_names_of_tables_columns_and_words_are_completed(database: Home) -> None:
    with database.open() as index:
        known = index.sql_tables()
    assert next(iter(known)).startswith("v_")
    assert "cost_usd" in known["v_daily_usage"]
    names = Names(name for table, columns in known.items() for name in (table, *columns))

    def completed(text: str) -> list[str]:
        return [found.text for found in names.get_completions(Document(text), None)]  # type: ignore[arg-type]

    assert completed("SELECT * FROM v_dai") == ["v_daily_usage"]
    assert completed("sel") == ["SELECT"]
    assert completed("SELECT cost_u") == ["cost_usd"]
    assert completed("SELECT 1 ") == []
