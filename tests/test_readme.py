"""The README tells the truth: every command, option, key, exit code and example of it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click
import pytest

from tests.builders import CASES, Home, Log
from tests.shell import FIX, SAMPLE, client_folder, objects, run
from transcripts.index.views import VIEWS
from transcripts.interfaces.cli import cli, exits

README = (Path(__file__).parents[1] / "README.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
EXAMPLES = [line.partition("  #")[0].strip() for line in README.splitlines() if line.startswith("transcripts ")]


def headings() -> set[str]:
    return {name for line in re.findall(r"^### (.*)$", README, re.MULTILINE) for name in line.split(", ")}


def test_every_command_has_its_place() -> None:
    assert headings() == set(cli.commands)


@pytest.mark.parametrize("name", list(cli.commands))
def test_every_command_has_help_with_an_example(name: str) -> None:
    told = run(name, "--help").stdout
    assert "Example" in told
    assert f"\n    transcripts {name}" in told
    assert all(option.help for option in cli.commands[name].params if isinstance(option, click.Option))


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs(example: str, apart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client_folder(apart)
    (apart / "backup" / ".claude" / "projects").mkdir(parents=True)
    run("sync")
    if "restore" in example:
        next((apart / ".claude").rglob(f"{FIX}*.jsonl")).unlink()
    monkeypatch.chdir(tmp_path)
    leaf = run("resume", FIX, "--format", "uuids").stdout.split()[0]
    words = [os.path.expanduser(word).replace("UUID", leaf) for word in shlex.split(example.partition(" > ")[0])]
    done = run(*words[1:])
    nothing_there = ("--since 7d", "--until 2026-03-31", "backup/.claude", "--agent ID", "--exec", "continue")
    if example.endswith("-i"):
        assert (done.exit_code, "needs a terminal" in done.stderr) == (2, True)
        return
    assert done.exit_code == (1 if any(part in example for part in nothing_there) else 0), done.stderr


def test_every_json_key_is_documented(home: Home, tmp_path: Path) -> None:
    home.write(b"[1]\n" + Log().turns(1).data)
    told = [
        *objects("sync", home.projects),
        *objects("list"),
        *objects("search", "word", "--context", "1"),
        *objects("search", "word", "--count"),
        *objects("show", "latest"),
        *objects("resume", "latest"),
        *objects("export", "latest", "-o", tmp_path / "copy.jsonl"),
        *objects("verify", code=1),
        *objects("rebuild"),
        *objects("stats"),
        *objects("stats", "--by", "tool", code=1),
        *objects("demo"),
    ]
    keys = {key for value in told for key in value} | {key for value in told for key in value.get("problems", [{}])[0]}
    section = README.partition("\n## JSON\n")[2].partition("\n## ")[0]
    assert keys - set(re.findall(r"`(\w+)`", section)) == set()


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int) and name[0] != "_"}
    assert {0, *codes} == {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}


def test_the_python_example_runs(apart: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client_folder(apart)
    exec(README.partition("```python\n")[2].partition("```")[0], {})
    assert "Fix the empty Monday delivery report" in capsys.readouterr().out


def test_both_commands_are_marked_for_ci_and_are_one_line_each() -> None:
    for marker in ("try", "test"):
        block = README.partition(f"<!-- command: {marker} -->\n```sh\n")[2].partition("\n```")[0]
        assert block
        assert "\n" not in block


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_runs_and_finds_something(query: str, home: Home) -> None:
    with home.open() as index:
        index.sync([SAMPLE, CASES / "genuine"])
        assert index.sql(query).rows


def test_there_are_ten_queries_and_every_view_is_told() -> None:
    assert len(QUERIES) >= 10
    section = README.partition("\n## Tables and views\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(v_\w+)` \|", section, re.MULTILINE)) == set(VIEWS)
