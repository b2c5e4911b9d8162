"""What a search can be narrowed to by the index itself: tokens that stand beside the texts.

Invariants:
- The tokens of a record are a pure function of the record, of its file's place and of the tools that it answers, which are
  kept beside the index (search_tools): so they can be taken out again.
- They begin with a character that stands in no indexed text and in no query: no word meets them.

A filter by a token costs its postings; the same filter by a join would cost each match of the words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

MARK = "\U0010fff0"
"""What every token begins with: one of the made-up letters that `expression.read` takes out of what a person types."""

SIDECHAIN = MARK + "side"


class Place(NamedTuple):
    """Where a record's file lies, as the table `files` has it."""

    source: str
    project_key: str
    session_id: str | None


@lru_cache(maxsize=4096)
def project(source: str, key: str) -> str:
    """The token of all records of a project's folder."""
    return _token("p", f"{source}/{key}")


@lru_cache(maxsize=4096)
def session(session_id: str) -> str:
    """The token of all records of a session, its sub-agents' too."""
    return _token("s", session_id)


@lru_cache(maxsize=64)
def role(kind: str) -> str:
    """The token of the records of a type: user, assistant, system."""
    return _token("r", kind)


@lru_cache(maxsize=4096)
def tool(name: str) -> str:
    """The token of records that call a tool, or hold its result."""
    return _token("t", name)


@lru_cache(maxsize=1024)
def model(name: str) -> str:
    """The token of a model's replies."""
    return _token("m", name)


@lru_cache(maxsize=4096)
def branch(name: str) -> str:
    """The token of records written on a branch of git."""
    return _token("b", name)


def scope(record: dict[str, Any], place: Place, answered: Iterable[str] = ()) -> str:
    """The tokens of a record, parted by spaces; `answered` are the tools whose results it holds."""
    return " ".join([*_tokens(record, place), *map(tool, answered)])


def _tokens(record: dict[str, Any], place: Place) -> Iterator[str]:
    yield project(place.source, place.project_key)
    if place.session_id is not None:
        yield session(place.session_id)
    kind = record.get("type")
    yield role("user" if kind == "attachment" else str(kind))
    if record.get("isSidechain") is True:
        yield SIDECHAIN
    if isinstance(name := record.get("gitBranch"), str) and name:
        yield branch(name)
    message = record.get("message")
    if kind != "assistant" or not isinstance(message, dict):
        return
    if isinstance(name := message.get("model"), str) and name:
        yield model(name)
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("tool_use", "server_tool_use"):
            name = block.get("name")
            if isinstance(name, str) and name:
                yield tool(name)


def _token(letter: str, name: str) -> str:
    """Ten bytes of a digest: no two names meet by chance, and the tokenizer sees one word."""
    return MARK + letter + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
