"""What every command takes: --db, --json and --no-sync, before the command's name or after it.

Invariants:
- An option given after the command's name wins over one given before it.
- A question that was answered without what a busy writer kept back says so, on standard error, once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from transcripts.interfaces.cli.output import one_line, say
from transcripts.interfaces.cli.progress import Bar

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.sessions.catalog import Transcript


LATEST = "latest"


@dataclass
class Settings:
    """The common options as given, and the progress bar of this run."""

    db: str | None = None
    json: bool = False
    no_sync: bool = False
    bar: Bar = field(default_factory=Bar)

    @contextmanager
    def opened(self, fresh: bool = True) -> Iterator[Index]:
        """The index of the chosen database; `fresh` is whether its questions import first, unless --no-sync was given."""
        gc.disable()  # what is loaded stays: looking for garbage in it is a tenth of the start
        from transcripts.interfaces import defaults

        gc.freeze()
        gc.enable()
        with self.bar, defaults.open(self.db, fresh and not self.no_sync, progress=self.bar.callback) as index:
            yield index
            self.bar.close()
            if index.stale:
                say("Another process is importing: this is what was there before it.")


def named(index: Index, session: str) -> tuple[str, Transcript]:
    """Find what SESSION means, tell which of several was taken, and the name to ask on with."""
    found = index.transcript(session)
    if found.others:
        say(f"{one_line(session)} is in {len(found.others) + 1} places; taken: {found.path}")
        for path in found.others:
            say(f"  not taken: {path}")
    return (found.path if session == LATEST else session), found  # it may be another session a moment later


def name_in_command(session_id: str, path: str, shared: Set[str]) -> str:
    """What names a session in a command: its id, or its path where the id would mean something else.

    `shared` are the ids that several sessions have.
    """
    return path if session_id in shared or session_id == LATEST or session_id.startswith("-") else session_id


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if value is not None:
        setattr(settings, str(parameter.name), value)


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the common options; it finds them with `pass_settings`."""
    for decorate in (
        click.option(
            "--no-sync", is_flag=True, default=None, expose_value=False, callback=_remember,
            help="Answer from what was imported before.",
        ),
        click.option(
            "--json", is_flag=True, default=None, expose_value=False, callback=_remember,
            help="Write JSON, one object a line.",
        ),
        click.option(
            "--db", metavar="PATH|URL", default=None, expose_value=False, callback=_remember,
            help="The database (else TRANSCRIPTS_DB, else the user's own).",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


pass_settings = click.make_pass_decorator(Settings, ensure=True)
