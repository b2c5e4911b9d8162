"""Resume is the real client's, on recorded cases and against an independent model in plain Python."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models import classic, current, trees
from transcripts import Index

CASES = Path(__file__).parent / "cases"


def _cases() -> Iterator[tuple[str, Path, dict[str, Any]]]:
    for folder, name in (("resume", "index.jsonl"), ("genuine", "index.jsonl"), ("faults", "chains.jsonl")):
        for line in (CASES / folder / name).read_text().splitlines():
            case = json.loads(line)
            file = case.get("file") or f"{case['name']}.jsonl"
            yield f"{folder}/{case.get('name') or file.split('/')[0]}-{case['session'][-4:]}", CASES / folder / file, case


RECORDED = [pytest.param(path, case, id=name) for name, path, case in _cases()]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.open(tmp_path_factory.mktemp("chain") / "transcripts.db", fresh=False) as opened:
        yield opened


class TestRecordedCases:
    @pytest.mark.parametrize(("path", "case"), RECORDED)
    def test_the_current_rules_give_the_chain_that_the_client_resumed(
        self, index: Index, path: Path, case: dict[str, Any]
    ) -> None:
        index.sync([path])
        chain = index.resume(str(path))
        assert [entry.uuid for entry in chain.entries] == (case["chain"] if case.get("resumed", True) else [])
