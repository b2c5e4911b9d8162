"""How a command ends: the one place where an error becomes a message and an exit code.

Invariants:
- A command returns its exit code (None is 0) or raises; only the table below says what an exception means.
- Ctrl-C ends a command with one sentence, wherever it comes.
- A reader that closes the pipe (`| head`) ends the command without a word, with the code a shell gives to such an end.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import click

from transcripts.errors import Ambiguous, DatabaseBusy, InvalidRequest, TranscriptBusy, TranscriptsError
from transcripts.interfaces.cli.output import one_line, say

NOTHING_OR_PROBLEMS = 1
USAGE = 2
BUSY = 75  # EX_TEMPFAIL of sysexits.h: try again
STOPPED = 130  # 128 + SIGINT
CLOSED_PIPE = 141  # 128 + SIGPIPE

_POOL = "sqlalchemy.pool.impl.QueuePool"  # the logger of the connections of a file, and of a server
_SHOWN = 20  # candidates for an ambiguous name


class Commands(click.Group):
    """The group of all commands, listed in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.exit(self._code(ctx))

    def _code(self, ctx: click.Context) -> int:
        try:
            code = self._answered(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            return CLOSED_PIPE
        except OSError as error:
            say(f"Error: {error.filename or 'output'}: {error.strerror or error}")
            _discard_output()
            return NOTHING_OR_PROBLEMS
        return code

    def _answered(self, ctx: click.Context) -> int:
        logging.getLogger(_POOL).addFilter(_is_fault)
        try:
            return super().invoke(ctx) or 0
        except TranscriptsError as error:
            say(f"Error: {_message(error)}")
            return _code_of(error)
        except KeyboardInterrupt:
            say("Stopped. The database is sound; the next sync goes on from here.")
            return STOPPED


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether what a pool logs is more than a stop that came while it closed a connection: that is raised, too."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _message(error: TranscriptsError) -> str:
    if isinstance(error, Ambiguous):
        lines = [str(error).partition("\n")[0], *(one_line(candidate, 100) for candidate in error.candidates[:_SHOWN])]
        if len(error.candidates) > _SHOWN:
            lines.append(f"and {len(error.candidates) - _SHOWN:,} more")
        return "\n  ".join(lines)
    return str(error)


def _code_of(error: TranscriptsError) -> int:
    if isinstance(error, (DatabaseBusy, TranscriptBusy)):
        return BUSY
    return USAGE if isinstance(error, InvalidRequest) else NOTHING_OR_PROBLEMS


def _discard_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter would complain about the closed pipe at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        return
