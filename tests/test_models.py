"""Hold both models to the evidence: what the real client resumed and sent for every recorded transcript."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models import classic, current
from tests.models.lines import read_objects
from tests.models.replay import INTERRUPTED, MISSING, NO_CONTENT, NO_RESPONSE, Part
from tests.models.trees import ordinary_transcripts, wild_transcripts

CASES = Path(__file__).parent / "cases"
CUT = 70  # characters of a text that the evidence shows

# Cases whose evidence names no line for a part that comes from one.
UNMAPPED = {
    "p11_meta_first_prompt": "the command line could not be mapped to its uuid when the evidence was taken",
    "l20_cr_only": "all lines of the file are one to the client, and the part could not be mapped to a uuid",
}


@dataclass(frozen=True)
class Case:
    name: str
    path: Path
    expected: dict[str, Any]


def read_index(folder: str, index: str) -> list[Case]:
    cases = []
    for line in (CASES / folder / index).read_text(encoding="utf-8").splitlines():
        expected = json.loads(line)
        file = expected.get("file", f"{expected.get('name')}.jsonl")
        name = expected.get("name", file.split("/")[0])
        if "file" in expected:
            name = f"{name}-{Path(file).stem[:8]}"
        cases.append(Case(name, CASES / folder / file, expected))
    return cases


ALL = [
    *read_index("resume", "index.jsonl"),
    *read_index("genuine", "index.jsonl"),
    *read_index("faults", "chains.jsonl"),
]
WITH_CLASSIC = [case for case in ALL if case.expected["classic"] is not None]
WITH_SENT = [case for case in ALL if "sent" in case.expected]


def name_of(case: Case) -> str:
    return case.name


def expected_part(role: str, uuid: str | None, summary: str, unmapped: bool) -> tuple[str, str | None, str]:
    """A part of the evidence in the words of the models: role, uuid and kind."""
    kind = summary.split(" ", 1)[0]
    if kind in ("tool_use", "tool_result"):
        kind = " ".join(summary.split(" ", 2)[:2])
    if uuid is None and not unmapped:
        made_up = {NO_CONTENT: "no content", NO_RESPONSE: "no response", MISSING: "missing", INTERRUPTED: "interrupted"}
        reasons = [why for text, why in made_up.items() if text[:40] in summary]
        kind = " ".join([kind, *reasons])
    return role, uuid, kind


def summary_of(part: Part) -> str:
    """A part as the evidence shows it."""
    if part.is_call:
        return part.kind
    if part.is_result:
        return f"tool_result {part.call} {'ERR ' if part.is_error else ''}{part.text[:CUT]}"
    return f"text {part.text[:CUT]}".replace("\n", "\\n")


def attachments(data: bytes) -> set[str]:
    return {str(raw.get("uuid")) for _, raw in read_objects(data, keep_glued=True) if raw.get("type") == "attachment"}


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_current_chain(case: Case) -> None:
    resumed = case.expected.get("resumed", True)
    assert current.resume(case.path.read_bytes()) == (case.expected["chain"] if resumed else None)


@pytest.mark.parametrize("case", WITH_SENT, ids=name_of)
def test_current_sent(case: Case) -> None:
    unmapped = case.name in UNMAPPED
    expected = [expected_part(role, uuid, summary, unmapped) for role, uuid, summary in case.expected["sent"]]
    found = current.sent(case.path.read_bytes())
    if unmapped:  # compare what the evidence names
        found = [
            (role, uuid if known else None, "text" if known is None and kind.startswith("text") else kind)
            for (role, uuid, kind), (_, known, _) in zip(found, expected, strict=True)
        ]
    assert found == expected


@pytest.mark.parametrize("case", WITH_SENT, ids=name_of)
def test_current_sent_texts(case: Case) -> None:
    parts = current.sent_parts(case.path.read_bytes())
    summaries = [summary for _, _, summary in case.expected["sent"]]
    for part, summary in zip(parts, summaries, strict=True):
        if part.role == "system":  # the client adds attachments of its own at the end of a chain
            assert summary.startswith(summary_of(part)[: len(summary)])
        else:
            assert summary_of(part)[: len(summary)] == summary


@pytest.mark.parametrize("case", WITH_CLASSIC, ids=name_of)
def test_classic_chain(case: Case) -> None:
    data = case.path.read_bytes()
    unseen = attachments(data)
    found = classic.resume(data) or []
    assert [uuid for uuid in found if uuid not in unseen] == case.expected["classic"]


def check_models(data: bytes) -> None:
    """Both models come to an end, and their chains name lines of the file, each once."""
    known = {raw.get("uuid") for _, raw in read_objects(data, keep_glued=True)}
    for chain in (current.resume(data), classic.resume(data)):
        assert chain is None or (len(set(chain)) == len(chain) and known.issuperset(chain))
    parts = {uuid for _, joined, _ in current.sent(data) if joined is not None for uuid in joined.split("+")}
    assert known.issuperset(parts)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ordinary_transcripts())
def test_models_end_on_ordinary_transcripts(data: bytes) -> None:
    check_models(data)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wild_transcripts())
def test_models_end_on_wild_transcripts(data: bytes) -> None:
    check_models(data)
