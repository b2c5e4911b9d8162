"""The picker: type, see the hits at once, choose one.

Invariants:
- Typing never waits: the index is asked in a thread, one question at a time, always for what stands there last; what was
  typed meanwhile is asked next.
- The last word finds what begins with it, since it may not be whole yet.
- Enter takes the chosen hit of what was typed, never one of an older text: it waits for the answer.
- What is shown of a transcript is harmless, as everywhere (see showing.py).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Set

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style

from transcripts.interfaces.cli.output import count, cut, one_line
from transcripts.interfaces.cli.showing import facts, pieces, resume_command, title
from transcripts.interfaces.cli.times import short
from transcripts.sessions.hits import Hit
from transcripts.sessions.search import SearchResult

_PAUSE = 0.05  # seconds without a key before the index is asked
_KEY_PAUSE = 0.05  # seconds after which Escape is the key, and not the beginning of another's sequence
_PAGE = 10  # hits that Page Up and Page Down pass
_PROJECT = 16  # columns of a project's name
_STYLE = Style.from_dict({
    "mark": "bold ansiyellow", "chosen": "reverse", "faint": "ansibrightblack", "title": "bold", "command": "ansicyan",
    "line": "ansibrightblack",
})  # fmt: skip
_BEGUN = re.compile(r"[^\W_]{3,}\Z")  # shorter beginnings are those of too many words
_OPERATORS = ("AND", "NOT")


def as_typed(text: str) -> str:
    """The query for a text whose last word may not be whole yet: it finds what begins so."""
    begun = _BEGUN.search(text)
    return f"{text}*" if begun and begun[0] not in _OPERATORS else text


class Picker:
    """A screen that asks as the user types.

    `ask` answers a query, `first` is its answer to `as_typed(text)`, with which the screen begins. `shared` are the ids that
    several sessions have.
    """

    def __init__(
        self, ask: Callable[[str], SearchResult], text: str, first: SearchResult, shared: Set[str] = frozenset()
    ) -> None:
        self._ask = ask
        self._shared = shared
        self._answer = first
        self._answered = text  # the text that it answers
        self._at = 0
        self._entered = False
        self._changed = asyncio.Event()
        self.typed = Buffer(multiline=False, on_text_changed=lambda _buffer: self._changed.set())
        self.typed.text = text
        self.typed.cursor_position = len(text)
        self._changed.clear()
        self._screen: Application[Hit | None] = Application(
            layout=Layout(self._layout(), self.typed),
            key_bindings=self._keys(),
            style=_STYLE,
            full_screen=True,
        )
        self._screen.ttimeoutlen = _KEY_PAUSE

    def run(self) -> Hit | None:
        """Show the screen until a hit is chosen; None when the user leaves without."""
        try:
            return self._screen.run(pre_run=self._start)
        except EOFError:  # the terminal is gone
            return None

    # -- asking ------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._screen.create_background_task(self._follow())

    async def _follow(self) -> None:
        """Ask for what is typed, until the screen is left."""
        try:
            while True:
                await self._changed.wait()
                while self._changed.is_set():
                    self._changed.clear()
                    await asyncio.sleep(_PAUSE)
                text = self.typed.text
                self._answer = await asyncio.to_thread(self._ask, as_typed(text))
                self._answered, self._at = text, 0
                if self._entered:
                    self._enter()
                self._screen.invalidate()
        except Exception as error:
            self._screen.exit(exception=error)

    def _enter(self) -> None:
        """Leave with the chosen hit, now or when the answer to what was typed is there."""
        self._entered = self._answered != self.typed.text
        if not self._entered and self._answer.hits:
            self._screen.exit(result=self._answer.hits[self._at])

    # -- keys --------------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def moving(step: int) -> Callable[[KeyPressEvent], None]:
            def move(_event: KeyPressEvent) -> None:
                self._at = max(0, min(self._at + step, len(self._answer.hits) - 1))

            return move

        for step, names in ((-1, ("up", "c-p")), (1, ("down", "c-n")), (-_PAGE, ("pageup",)), (_PAGE, ("pagedown",))):
            for name in names:
                keys.add(name)(moving(step))
        keys.add("enter")(lambda _event: self._enter())
        for name in ("escape", "c-c"):
            keys.add(name, eager=True)(lambda event: event.app.exit(result=None))
        return keys

    # -- what is shown -----------------------------------------------------------------------------------------------------

    def _layout(self) -> HSplit:
        label = Window(FormattedTextControl("Search: "), dont_extend_width=True)
        return HSplit([
            VSplit([label, Window(BufferControl(self.typed))], height=1),
            Window(height=1, char="─", style="class:line"),
            Window(
                FormattedTextControl(self._hits, get_cursor_position=lambda: Point(0, self._at)),
                height=Dimension(weight=1),
                always_hide_cursor=True,
            ),
            Window(height=1, char="─", style="class:line"),
            Window(FormattedTextControl(self._preview), height=Dimension(weight=1), wrap_lines=True),
            Window(FormattedTextControl(self._state), height=1, style="class:faint"),
        ])  # fmt: skip

    def _hits(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        for number, hit in enumerate(self._answer.hits):
            chosen = "class:chosen " if number == self._at else ""
            project = cut(one_line(os.path.basename(hit.project)), _PROJECT)
            shown.append((chosen + "class:faint", f"{short(hit.timestamp, narrow=True):<11}  "))
            shown.append((chosen, f"{project:<{_PROJECT}}  "))
            shown += [(chosen + "class:mark" * marked, piece) for piece, marked in pieces(hit.snippet, hit.marks)]
            shown.append(("", "\n"))
        return shown[:-1]

    def _preview(self) -> StyleAndTextTuples:
        columns = self._screen.output.get_size().columns
        return list(_preview(self._answer.hits[self._at], columns, self._shared)) if self._answer.hits else []

    def _state(self) -> str:
        found = self._answer
        told = [f"{len(found.hits)}{'+' * found.more} found" if found.hits else f"nothing found: {found.reason}"]
        if not found.query.strip():
            told = ["type words to look for"]
        if found.is_plain:
            told.append("taken as plain words")
        if found.approximate:
            told.append("only the newest were ranked")
        if found.waiting:
            told.append(f"{count(found.waiting, 'line')} not indexed yet")
        return one_line(" · ".join([*told, "Up/Down choose, Enter resumes, Escape leaves"]))


def _preview(hit: Hit, columns: int, shared: Set[str]) -> Iterator[tuple[str, str]]:
    """A hit with what was said around it, a line for each."""
    yield "class:title", cut(title(hit), columns) + "\n"
    yield "class:faint", f"{facts(hit)}\n"
    yield "class:command", f"{resume_command(hit, shared)}\n"
    for said in hit.before:
        yield "class:faint", cut(one_line(f"{said.role}: {said.text}"), columns) + "\n"
    yield "", f"{hit.role}: "
    for piece, marked in pieces(hit.snippet, hit.marks):
        yield "class:mark" if marked else "", piece
    for said in hit.after:
        yield "class:faint", "\n" + cut(one_line(f"{said.role}: {said.text}"), columns)
