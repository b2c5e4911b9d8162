"""Any text as the name of a file or folder, and back.

Invariants:
- Two texts have two names, also where a file system takes capitals and small letters for the same.
- No name leaves its folder, and none means something to the layout (agent-..., subagents, projects) or to a system.
- What the client itself would write is left as it is, but for its capitals: a uuid, a project's folder, the place of a
  sub-agent. Any other name begins with "_".
- A name tells its text. One that would be too long is cut and ends in a digest; then the text stands in a file beside it.
"""

from __future__ import annotations

import hashlib
import re

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGENT = re.compile(r"subagents/(?:workflows/[A-Za-z0-9_-]{1,100}/)?agent-[A-Za-z0-9_-]{1,100}")
_SIGN = re.compile(r"[^a-z0-9_-]")
_CODE = re.compile(r"\+(.)|((?:%[0-9a-f]{2})+)")
_LONGEST = 230  # bytes: the endings .jsonl and .id fit behind it
_CUT = 150
_CUT_MARK = "~"


def name_of(text: str) -> str:
    """The name of a file or folder for an id."""
    name = _SIGN.sub(_coded, text)
    return _short(name if _UUID.fullmatch(text) or text.startswith("-") else f"_{name}", text)


def text_of(name: str) -> str | None:
    """The id that a name stands for; None for one that was cut."""
    return None if _CUT_MARK in name else _CODE.sub(_decoded, name.removeprefix("_"))


def place_of(subpath: str) -> str:
    """The path, below a session's folder and without its ending, for what belongs to a session."""
    name = _SIGN.sub(_coded, subpath)
    return name.replace("%2f", "/") if _AGENT.fullmatch(subpath) else f"subagents/{_short(f'_{name}', subpath)}"


def subpath_of(place: str) -> str | None:
    """What a place below a session's folder stands for; None for one that was cut."""
    own = place.removeprefix("subagents/")
    return text_of(own if own.startswith("_") else place)


def _coded(sign: re.Match[str]) -> str:
    if "A" <= sign[0] <= "Z":
        return f"+{sign[0].lower()}"
    return "".join(f"%{byte:02x}" for byte in sign[0].encode("utf-8", "surrogatepass"))


def _decoded(code: re.Match[str]) -> str:
    if code[1]:
        return code[1].upper()
    return bytes.fromhex(code[2].replace("%", "")).decode("utf-8", "surrogatepass")


def _short(name: str, text: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_CUT]}{_CUT_MARK}{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
