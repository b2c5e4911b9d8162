"""tools/make_corpus: the same options give the same bytes, and nothing that real folders hold is missing."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "make_corpus"
SIZE = 20_000_000
MARKERS = {"quorvane": 0.5, "marlokite": 0.1, "zindelwort": 0.01}


def make_corpus(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(TOOL), str(folder), *options]
    summary: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return summary


class Corpus:
    """What a generated folder holds: whole lines as records, the ends of files as bytes."""

    def __init__(self, root: Path, summary: dict[str, Any]) -> None:
        self.root, self.summary = root, summary
        self.paths = sorted(path for path in root.rglob("*") if path.is_file())
        self.records: dict[Path, list[dict[str, Any]]] = {}
        self.tails: dict[Path, bytes] = {}
        for path in self.paths:
            if path.suffix == ".jsonl":
                *lines, tail = path.read_bytes().split(b"\n")
                lines += [tail] if tail.endswith(b"}") else []
                self.records[path] = [json.loads(line) for line in lines]
                self.tails[path] = tail
        self.all = [record for records in self.records.values() for record in records]
        self.kinds = Counter(kind for record in self.all for kind in kinds_of(record))
        self.sessions = {path: records for path, records in self.records.items() if is_session(path)}


def is_session(path: Path) -> bool:
    return path.parent.parent.name == "projects" and not path.name.startswith("agent-")


def kinds_of(record: dict[str, Any]) -> list[str]:
    """A record's type, what kind of that it is, and the types of its blocks."""
    kinds = [record["type"], record.get("subtype"), record.get("attachment", record.get("data", {})).get("type")]
    return [kind for kind in kinds if kind] + [block["type"] for block in blocks_of(record)]


def blocks_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    content = record.get("message", {}).get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(record: dict[str, Any]) -> str:
    """What a person would search for."""
    words = []
    for block in blocks_of(record):
        words += [block.get("text", ""), block.get("thinking", ""), block.get("content", "")]
        words.append(" ".join(block.get("input", {}).values()))
    return " ".join(words).strip()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    root = tmp_path_factory.mktemp("corpus")
    return Corpus(root, make_corpus(root, "--size", "20MB", "--digest"))


class TestSameOptions:
    def test_give_the_same_bytes_and_another_seed_gives_others(self, tmp_path: Path) -> None:
        options = ("--size", "2MB", "--files", "16", "--digest")
        first = make_corpus(tmp_path / "a", "--seed", "7", *options)
        again = make_corpus(tmp_path / "b", "--seed", "7", *options)
        other = make_corpus(tmp_path / "c", "--seed", "8", *options)
        assert first == again
        assert first["sha256"] != other["sha256"]

    def test_give_the_same_bytes_on_every_machine(self, tmp_path: Path) -> None:
        summary = make_corpus(tmp_path, "--size", "1MB", "--files", "16", "--digest")
        assert summary["sha256"] == "4b265fe611c1d8e37d5fc2048110f6711f9470dee3618fc17372f1766c245f92"


class TestSummary:
    def test_counts_what_was_written(self, corpus: Corpus) -> None:
        assert corpus.summary["files"] == len(corpus.paths)
        assert corpus.summary["bytes"] == sum(path.stat().st_size for path in corpus.paths)
        assert corpus.summary["sessions"] == len(corpus.sessions) == 30
        assert corpus.summary["entries"] == len(corpus.all)
        assert corpus.summary["messages"] == sum("message" in record for record in corpus.all)

    def test_size_is_near_what_was_asked_for(self, corpus: Corpus) -> None:
        assert abs(corpus.summary["bytes"] - SIZE) < SIZE / 10

    def test_an_existing_folder_is_left_alone(self, corpus: Corpus) -> None:
        command = [sys.executable, str(TOOL), str(corpus.root)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 2
        assert "exists" in run.stderr


class TestLines:
    def test_every_parent_stands_before_its_children(self, corpus: Corpus) -> None:
        for records in corpus.records.values():
            seen: set[str | None] = {None}
            for record in records:
                if "uuid" in record:
                    assert record["parentUuid"] in seen
                    assert record["uuid"] not in seen
                    seen.add(record["uuid"])

    def test_a_result_is_the_child_of_its_call(self, corpus: Corpus) -> None:
        for records in corpus.records.values():
            blocks = [(record["uuid"], block) for record in records for block in blocks_of(record)]
            calls = {block["id"]: uuid for uuid, block in blocks if block["type"] == "tool_use"}
            for record in records:
                for block in blocks_of(record):
                    if block["type"] == "tool_result":
                        assert record["sourceToolAssistantUUID"] == calls[block["tool_use_id"]]

    def test_usage_grows_over_the_lines_of_a_reply(self, corpus: Corpus) -> None:
        spent: dict[str, int] = {}
        several = 0
        for record in corpus.records[max(corpus.sessions, key=lambda path: path.stat().st_size)]:
            if record["type"] == "assistant":
                reply, tokens = record["message"]["id"], record["message"]["usage"]["output_tokens"]
                several += reply in spent
                assert tokens > spent.get(reply, -1)
                spent[reply] = tokens
        assert several

    def test_half_of_the_bytes_is_text_to_search(self, corpus: Corpus) -> None:
        text = sum(len(text_of(record).encode()) for record in corpus.all)
        assert 0.35 < text / corpus.summary["bytes"] < 0.6


class TestMarkers:
    def test_each_word_stands_in_its_share_of_messages(self, corpus: Corpus) -> None:
        texts = [text for record in corpus.all if (text := text_of(record))]
        for word, share in MARKERS.items():
            found = sum(word in text for text in texts)
            assert share * 0.6 < found / len(texts) < share * 1.5, word

    def test_the_rare_word_stands_in_one_line(self, corpus: Corpus) -> None:
        assert sum("xylorimba7" in json.dumps(record) for record in corpus.all) == 1

    def test_help_names_them(self) -> None:
        run = subprocess.run([sys.executable, str(TOOL), "--help"], capture_output=True, text=True, check=True)
        for word in ("xylorimba7", *MARKERS):
            assert word in run.stdout


class TestFeatures:
    def test_no_kind_of_line_is_missing(self, corpus: Corpus) -> None:
        kinds = """ai-title custom-title tag last-prompt mode permission-mode file-history-snapshot summary progress
        hook_progress bash_progress turn_duration stop_hook_summary compact_boundary environment skill_listing
        prompt_snapshot thinking tool_use tool_result image"""
        assert set(kinds.split()) <= set(corpus.kinds)

    def test_parallel_tools(self, corpus: Corpus) -> None:
        replies = Counter(
            record["message"]["id"]
            for record in corpus.all
            for block in blocks_of(record)
            if record["type"] == "assistant" and block["type"] == "tool_use"
        )
        assert max(replies.values()) >= 3

    def test_branches_inside_a_file(self, corpus: Corpus) -> None:
        prompts = [record["parentUuid"] for record in corpus.all if "promptId" in record]
        assert max(Counter(filter(None, prompts)).values()) > 1

    def test_forks_repeat_the_uuids_of_another_session(self, corpus: Corpus) -> None:
        places: dict[str, set[str]] = {}
        for record in corpus.all:
            if "uuid" in record:
                places.setdefault(record["uuid"], set()).add(record["sessionId"])
        assert max(map(len, places.values())) == 2

    def test_compactions_with_and_without_kept_messages(self, corpus: Corpus) -> None:
        boundaries = [record for record in corpus.all if record.get("subtype") == "compact_boundary"]
        assert all(record["parentUuid"] is None and record["logicalParentUuid"] for record in boundaries)
        assert {"preservedMessages" in record["compactMetadata"] for record in boundaries} == {True, False}
        assert sum(record.get("isCompactSummary", False) for record in corpus.all) == len(boundaries)

    def test_sub_agents_and_big_outputs_beside_their_session(self, corpus: Corpus) -> None:
        names = [str(path) for path in corpus.paths]
        assert any(re.search(r"/subagents/agent-\w+\.jsonl$", name) for name in names)
        assert any(re.search(r"/subagents/agent-\w+\.meta\.json$", name) for name in names)
        assert any(re.search(r"/tool-results/\w+\.txt$", name) for name in names)
        assert any(path.name.startswith("agent-") and path.parents[1].name == "projects" for path in corpus.paths)

    def test_files_without_a_final_newline_and_torn_ones(self, corpus: Corpus) -> None:
        tails = [tail for tail in corpus.tails.values() if tail]
        assert any(tail.endswith(b"}") for tail in tails)
        assert any(not tail.endswith(b"}") for tail in tails)

    def test_text_in_many_scripts(self, corpus: Corpus) -> None:
        for letters in ("[\u4e00-\u9fff]", "[\u3040-\u30ff]", "[\uac00-\ud7af]", "[\U0001f300-\U0001faff]"):
            assert sum(bool(re.search(letters, text_of(record))) for record in corpus.all) > 50, letters


class TestOne:
    def test_one_session_has_just_so_many_messages_in_one_chain(self, tmp_path: Path) -> None:
        summary = make_corpus(tmp_path, "--one", "500")
        assert (summary["sessions"], summary["messages"]) == (1, 500)
        (path,) = tmp_path.rglob("*.jsonl")
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert sum("message" in record for record in records) == 500
        assert sum("xylorimba7" in json.dumps(record) for record in records) == 1
        assert [record for record in records if record.get("parentUuid", "") is None] == [records[2]]
