"""A hit as it is shown: what it belongs to, its snippet with the words marked, and the command that resumes it.

Invariants:
- What is given back is harmless (see output.py); marks stay on their words though characters before them are taken away.
- The command can be pasted into a shell as it stands, whatever a session's id holds, and means the session of the hit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from transcripts.interfaces.cli.options import name_in_command
from transcripts.interfaces.cli.output import command, count, cut, home_shortened, one_line, safe, wrapped
from transcripts.interfaces.cli.times import short

if TYPE_CHECKING:
    from transcripts.sessions.hits import Hit

Piece = tuple[str, bool]
"""A part of a snippet, and whether it is marked."""

_TITLE = 200  # columns
_SPACE = re.compile(r"\s+")


def title(hit: Hit) -> str:
    """What the session is called, which may be a whole prompt, in a line or two."""
    return cut(one_line(hit.title or ""), _TITLE) or "(no title)"


def facts(hit: Hit) -> str:
    """When and where it was said, and by whom, on one line."""
    told = [short(hit.timestamp), home_shortened(hit.project), f"{hit.role}/{hit.kind}" if hit.uuid else hit.kind]
    if hit.agent_id:
        told.append(f"sub-agent {hit.agent_id}")
    if hit.state != "live":
        told.append(hit.state)
    if hit.matches > 1:
        told.append(count(hit.matches, "matching line"))
    return "  ".join(map(one_line, told))


def pieces(text: str, marks: Sequence[tuple[int, int]]) -> list[Piece]:
    """A snippet on one line, cut at the edges of its marks."""
    found: list[Piece] = []
    at = 0
    for start, end in marks:
        found += [(_flat(text[at:start]), False), (_flat(text[start:end]), True)]
        at = end
    found.append((_flat(text[at:]).rstrip(), False))
    found[0] = (found[0][0].lstrip(), False)
    return [piece for piece in found if piece[0]]


def broken(found: Sequence[Piece], room: int) -> Iterator[list[Piece]]:
    """The pieces on lines of at most so many columns, broken between words where that can be."""
    text = "".join(piece for piece, _marked in found)
    end = 0
    for line in wrapped(text, room):
        start = text.index(line, end)  # only spaces are left out between two lines
        end = start + len(line)
        yield list(_between(found, start, end))


def _between(found: Sequence[Piece], start: int, end: int) -> Iterator[Piece]:
    at = 0
    for piece, marked in found:
        if part := piece[max(0, start - at) : max(0, end - at)]:
            yield part, marked
        at += len(piece)


def session_path(hit: Hit) -> str:
    """The transcript of the session that a hit belongs to: of a sub-agent's, the one that its place tells."""
    if not (hit.agent_id and hit.session_id):
        return hit.path
    project, below, _name = hit.path.partition(f"{os.sep}{hit.session_id}{os.sep}")
    return os.path.join(project if below else os.path.dirname(hit.path), f"{hit.session_id}.jsonl")


def resume_command(hit: Hit, shared: Set[str]) -> str:
    """The command that shows the conversation around a hit; `shared` are the ids that several sessions have."""
    name = name_in_command(hit.session_id, session_path(hit), shared) if hit.session_id else hit.path
    if not hit.agent_id:
        return command("resume", name)
    if hit.session_id and hit.title is not None:
        return command("resume", name, "--agent", hit.agent_id)
    return command("resume", hit.path)  # a sub-agent's file may be all that there is of a session


def _flat(text: str) -> str:
    return _SPACE.sub(" ", safe(text))
