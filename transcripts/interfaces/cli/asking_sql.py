"""The prompt of `sql`: statements one after the other, with history and completion.

Invariants:
- A statement runs when it ends with a semicolon, or at an empty line; a fault of it is told and the prompt goes on.
- The history is a file that the user alone can read: statements may hold what transcripts hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from transcripts.errors import QueryRefused
from transcripts.files.private import make_folders
from transcripts.interfaces.cli.output import say

_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "ON", "AND", "OR", "NOT", "AS",
    "DISTINCT", "count(*)", "sum(", "avg(", "min(", "max(", "CASE", "WHEN", "THEN", "ELSE", "END", "IS NULL", "IN", "LIKE",
    "DESC", "WITH", "UNION ALL", "json_extract(", "entry_json(",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][\w]*\Z")


class Names(Completer):
    """Completes the words of SQL, and the names of tables, views and their columns."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names), key=str.lower)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        begun = _NAME.search(document.text_before_cursor)
        if begun is None:
            return
        for name in (*self._names, *_WORDS):
            if name.lower().startswith(begun[0].lower()) and name != begun[0]:
                yield Completion(name, start_position=-len(begun[0]))


def ask(run: Callable[[str], None], names: Iterable[str], *, input: Input | None = None, output: Output | None = None) -> None:
    """Read statements and run them until the user ends it (Ctrl-D)."""

    @Condition
    def goes_on() -> bool:
        text = session.default_buffer.text
        return bool(text.strip()) and not text.rstrip().endswith(";") and not text.endswith("\n")

    session: PromptSession[str] = PromptSession(
        "sql> ", multiline=goes_on, prompt_continuation="...> ", history=FileHistory(_history()), completer=Names(names),
        complete_while_typing=False, input=input, output=output,
    )  # fmt: skip
    say("A statement ends with ; or an empty line. Tab completes, Ctrl-D ends.")
    while True:
        try:
            statement = session.prompt().strip().rstrip(";")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if statement.strip():
            try:
                run(statement)
            except QueryRefused as error:
                say(f"Error: {error}")


def _history() -> str:
    folder = platformdirs.user_state_dir("transcripts")
    make_folders(folder)
    path = os.path.join(folder, "sql_history")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path
