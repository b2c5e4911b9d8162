"""What is written, and how it is made harmless.

Invariants:
- A transcript is somebody else's text. What is shown of it as text goes through `safe` or `one_line`: no control character,
  no escape sequence and no sign that turns the reading direction reaches the terminal; markup is not interpreted.
- JSON is the same data with such characters escaped, one object a line. `export` and `resume --format jsonl` do not come
  here: they write the bytes as they were.
- On a terminal text fits its width; in a pipe it is as wide as it needs, so that nothing is cut away from a filter.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_UNLIMITED = 10_000
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links, device strings, when they end
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_WORD = re.compile(r"\s*\S+")
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """A text of any number of lines without what could act on a terminal; such characters are shown as a dot."""
    if text.isprintable():
        return text
    return _UNSAFE.sub("·", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, limit: int | None = None) -> str:
    """A safe text on one line, cut to so many characters."""
    line = " ".join(safe(text).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def command(*words: str) -> str:
    """A command of ours that can be pasted into a shell as it stands, whatever stands in its words."""
    return one_line(shlex.join(["transcripts", *words]))


def say(message: str) -> None:
    """Tell the user something, beside the data and after what was written of it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    print(safe(message), file=sys.stderr)


def write(text: str = "") -> None:
    """Write one line of text, or several, as data. The caller has made it safe."""
    sys.stdout.write(_encodable(text) + "\n")


def write_json(value: dict[str, Any]) -> None:
    """Write one object on one line."""
    text = json.dumps(value, ensure_ascii=not _is_utf8(), default=str)
    sys.stdout.write(_UNSAFE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n")


def width() -> int:
    """How many columns text may take: those of the terminal (or COLUMNS), in a pipe as many as it likes."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return _UNLIMITED


def console() -> Console:
    """A rich console for standard output, for tables and trees; it interprets nothing of what it is given."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # how a command ends is not rich's to say

    return Plain(width=width(), markup=False, highlight=False, emoji=False)


def painted(text: str, **style: Any) -> str:
    """A text in colour (the words of click.style), where standard output is a terminal that wants any."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return click.style(text, **style) if wanted else text


def wrapped(line: str, room: int) -> Iterator[str]:
    """A line broken between words, and inside those that are longer, into pieces of at most so many columns."""
    if len(line) <= room and line.isascii():
        yield line
        return
    from rich.cells import cell_len, chop_cells

    measure: Callable[[str], int] = len if line.isascii() else cell_len
    piece, used = "", 0
    for word in _WORD.findall(line):
        size = measure(word)
        if used + size > room and (piece or size > room):
            if piece:
                yield piece
                word = word.lstrip()
            *whole, word = chop_cells(word, room) or [""]
            yield from whole
            piece, used, size = "", 0, measure(word)
        piece += word
        used += size
    yield piece


def cut(text: str, cells: int) -> str:
    """A text of at most so many columns, with an ellipsis where something is left out."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def home_shortened(path: str) -> str:
    """A path with the user's home as ~."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home.rstrip("/") + "/") else path


def size(number: int) -> str:
    """A number of bytes for people."""
    value = float(number)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 2 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun[:-1] + 'ie' if noun.endswith('y') else noun}s"


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _encodable(text: str) -> str:
    if _is_utf8():
        return text
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
