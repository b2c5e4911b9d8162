"""Any text is a name that leads nowhere else, and tells its text."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcripts.files.naming import name_of, place_of, subpath_of, text_of

TEXTS = st.text(st.characters(), max_size=40) | st.sampled_from(["", ".", "..", "/", "a/../b", "agent-x", "CON", "\0", "\ud83d"])
RESERVED = ("agent-", ".", "con", "nul")
UUID = "5e551010-0000-4000-8000-000000000001"


@pytest.mark.parametrize("text", [UUID, "-home-dev-shop", "-"])
def test_what_the_client_writes_is_left_as_it_is(text: str) -> None:
    assert name_of(text) == text


@pytest.mark.parametrize("subpath", ["subagents/agent-a1b2", "subagents/workflows/run_1/agent-x"])
def test_the_place_of_a_sub_agent_is_left_as_it_is(subpath: str) -> None:
    assert place_of(subpath) == subpath


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "_"), ("..", "_%2e%2e"), ("a/b", "_a%2fb"), ("agent-x", "_agent-x"), ("subagents", "_subagents"),
        ("-Users-ada", "-+users-ada"), (UUID.upper().replace("5E", "5e"), f"_{UUID}"), ("é", "_%c3%a9"),
    ],
)  # fmt: skip
def test_names_can_be_read(text: str, name: str) -> None:
    assert name_of(text) == name or text.lower() == UUID


@given(TEXTS)
def test_a_name_tells_its_text_and_leads_nowhere_else(text: str) -> None:
    name = name_of(text)
    assert text_of(name) == text
    assert os.sep not in name
    assert name.isascii()
    assert name == name.lower()
    assert not name.startswith(RESERVED)
    assert not name.endswith((".jsonl", ".", " "))


@given(TEXTS)
def test_a_place_tells_its_subpath_and_stays_below_the_folder(subpath: str) -> None:
    place = place_of(subpath)
    assert subpath_of(place) == subpath
    assert os.path.normpath(place) == place
    assert place.startswith("subagents/")
    assert place == place.lower()


@given(TEXTS, TEXTS)
def test_two_texts_have_two_names(one: str, other: str) -> None:
    assert (name_of(one) == name_of(other)) == (place_of(one) == place_of(other)) == (one == other)


@pytest.mark.parametrize("sign", ["x", "A", "/", "é", "👩"])
def test_a_long_text_has_a_name_that_every_system_takes(sign: str) -> None:
    names = {name_of(sign * length) for length in (400, 401, 4000)}
    assert len(names) == 3
    for name in names:
        assert len(f"{name}.jsonl") < 255
        assert text_of(name) is None
    assert subpath_of(place_of(f"subagents/agent-{sign * 400}")) is None
