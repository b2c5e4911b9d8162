"""`search`: what was said anywhere, as hits to read, for a program, or to pick one from and go on with it.

Invariants:
- Hits go to standard output; the truth about them (how the query was read, what is left out, why there is none) goes to
  standard error, and with --json after the hits as an object of its own.
- The picker, and the library it stands on, are loaded only when asked for.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import InvalidRequest, TranscriptsError
from transcripts.interfaces.cli import times
from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS, STOPPED
from transcripts.interfaces.cli.going_on import start_client
from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import count, cut, one_line, painted, say, width, wrapped, write, write_json
from transcripts.interfaces.cli.showing import broken, facts, pieces, resume_command, session_path, title
from transcripts.interfaces.cli.times import iso, local

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.sessions.hits import Hit, Said
    from transcripts.sessions.search import SearchResult

_ROLES = ["user", "assistant", "system"]
_KINDS = ["title", "summary", "prompt", "reply", "thinking", "tool", "result"]
_LIMIT = 20
_ALL = 1_000_000_000  # more than there can be, and not too large for a database
_AROUND = 2  # messages before and after a hit in the picker, unless told
_COPIES = 3  # named; all of them are in --json


class _Query(click.Command):
    """A command whose words may look like options, which are told apart by `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            how = f"{error.message.rstrip('.')} (to search for it: transcripts search -- {error.option_name})."
            raise click.NoSuchOption(error.option_name, how, error.possibilities, ctx) from None


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a search is narrowed to."""
    for decorate in (
        click.option("--replaced", is_flag=True, help="Also what only an older version of a rewritten file holds."),
        click.option("--live", is_flag=True, help="Only what stands in the conversations that would be resumed."),
        click.option("--no-sidechains", is_flag=True, help="Without what sub-agents said."),
        click.option("--until", callback=times.until, metavar="TIME", help="Only what was said until then."),
        click.option(
            "--since", callback=times.since, metavar="TIME", help="Only what was said since then: 7d, yesterday, 2026-03-09.",
        ),
        click.option("--branch", metavar="NAME", help="Only what was said on this branch of git."),
        click.option("--model", metavar="TEXT", help="Only replies of models whose name has this in it."),
        click.option("--tool", metavar="NAME", help="Only calls of this tool and their results."),
        click.option("--kind", type=click.Choice(_KINDS), help="Only this part of messages."),
        click.option("--role", type=click.Choice(_ROLES), help="Only lines of this role."),
        click.option("--session", metavar="SESSION", help="Only this session and its sub-agents."),
        click.option(
            "--project", metavar="TEXT", help="Only projects whose path has this in it, or whose folder is called so.",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command(cls=_Query)
@click.argument("query", nargs=-1, metavar="QUERY...")
@_filters
@click.option("--newest", is_flag=True, help="The newest first, instead of the best.")
@click.option("--by-session", is_flag=True, help="One hit a session.")
@click.option("--context", type=click.IntRange(min=0), metavar="N", help="Show N messages before and after each hit.")
@click.option("--count", "counted", is_flag=True, help="Only tell how many messages match.")
@click.option("--limit", type=click.IntRange(min=0), help=f"At most so many hits (default: {_LIMIT}); 0 is all.")
@click.option("--page", type=click.IntRange(min=1), default=1, metavar="N", help="The Nth page of so many hits.")
@click.option("-i", "--interactive", is_flag=True, help="Type, see hits at once, and resume one with Enter.")
@common
@pass_settings
def search(
    settings: Settings,
    /,
    query: tuple[str, ...],
    newest: bool,
    by_session: bool,
    context: int | None,
    counted: bool,
    limit: int | None,
    page: int,
    interactive: bool,
    no_sidechains: bool,
    **filters: Any,
) -> int:
    """Search everything that was ever said, and find the session to resume.

    All words of QUERY must stand in a message. "a phrase" (within the shell's quotes), word*, AND, OR, NOT and parentheses
    work, and title: summary: prompt: reply: thinking: tool: result: before a word or a phrase tell where it must stand. What
    is no such expression is taken as plain words. `-` reads the query from standard input; what begins with a hyphen
    is searched for behind `--`.

    \b
    Examples:
      transcripts search delivery report monday
      transcripts search '"empty report" OR prompt:monday' --since 7d --newest
      transcripts search parse_config --project orchard --context 2
      transcripts search -i
      transcripts search --count -- --no-verify
    """
    text = _text(query)
    filters["sidechains"] = not no_sidechains
    if counted and (by_session or context or limit is not None or page > 1):
        raise InvalidRequest("--count counts all messages that match; leave --by-session, --context, --limit and --page out")
    if interactive and (settings.json or counted or page > 1):
        raise InvalidRequest("--interactive goes without --json, --count and --page")
    ordered: dict[str, Any] = {"newest": newest, "by_session": by_session}
    size = min(_ALL, _LIMIT if limit is None else limit or _ALL)
    around = min(_ALL, context or 0)
    if interactive:
        return _pick(settings, text, filters, {**ordered, "context": _AROUND if context is None else around, "limit": size})
    if not text.strip():
        raise InvalidRequest("give words to look for, like: transcripts search delivery report")
    with settings.opened() as index:
        _settle(index, filters)
        result = index.search(
            text, **filters, **ordered, context=around, limit=1 if counted else size, offset=(min(_ALL, page) - 1) * size
        )
        number = index.search_count(text, **filters) if counted and result.hits else 0
        empty = not result.hits and not index.roots()
        shared = index.shared_ids()
    if counted:
        write_json({"count": number} | _query_json(result, index.stale)) if settings.json else write(str(number))
    elif settings.json:
        for hit in result.hits:
            write_json(hit_json(hit))
        write_json(_query_json(result, index.stale) | {"approximate": result.approximate, "more": result.more})
    else:
        _print(result.hits, shared)
    _tell(result, None if counted else page)
    if empty:
        say("There are no sessions; import some: transcripts sync")
    return 0 if result.hits else NOTHING_OR_PROBLEMS


def _text(words: tuple[str, ...]) -> str:
    """The query: the words as one text, or what standard input holds."""
    if words == ("-",):
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    return " ".join(words)


def _settle(index: Index, filters: dict[str, Any]) -> None:
    """Let the name of a session mean one, and tell which of several was taken."""
    if filters["session"] is not None:
        filters["session"], _found = named(index, filters["session"])


# -- for a program ---------------------------------------------------------------------------------------------------------


def hit_json(hit: Hit) -> dict[str, Any]:
    """A hit for a program."""
    value = dataclasses.asdict(hit) | {"timestamp_iso": iso(hit.timestamp)}
    for around in ("before", "after"):
        value[around] = [said | {"timestamp_iso": iso(said["timestamp"])} for said in value[around]]
    return value


def _query_json(result: SearchResult, stale: bool) -> dict[str, Any]:
    """How a query was answered, for a program."""
    return {name: getattr(result, name) for name in ("query", "reading", "is_plain", "reason", "waiting")} | {"stale": stale}


# -- for a person ----------------------------------------------------------------------------------------------------------


def _print(hits: tuple[Hit, ...], shared: Set[str]) -> None:
    room = max(20, width())
    for number, hit in enumerate(hits):
        if number:
            write()
        write(painted(cut(title(hit), room), bold=True))
        write(painted(cut(f"  {facts(hit)}", room), dim=True))
        for said in hit.before:
            _print_said(said, room)
        for line in broken(pieces(hit.snippet, hit.marks), room - 2):
            write("  " + "".join(painted(part, fg="yellow", bold=True) if marked else part for part, marked in line))
        for said in hit.after:
            _print_said(said, room)
        if hit.copies:
            more = f" and {len(hit.copies) - _COPIES:,} more" if len(hit.copies) > _COPIES else ""
            for piece in wrapped(f"also in {one_line(', '.join(hit.copies[:_COPIES]))}{more}", room - 2):
                write(painted(f"  {piece}", dim=True))
        write(f"  {painted(resume_command(hit, shared), fg='cyan')}")


def _print_said(said: Said, room: int) -> None:
    moment = local(said.timestamp)
    head = f"{f'{moment:%H:%M}' if moment else '-':<5}  {one_line(said.role):<9}  "
    for piece in wrapped(one_line(said.text), max(10, room - 4 - len(head))):
        write(painted(f"    {head}{piece}", dim=True))
        head = " " * len(head)


def _tell(result: SearchResult, page: int | None) -> None:
    """What must be known of the hits, beside them; `page` is the one that was shown."""
    if not result.hits:
        how = "taken as plain words" if result.is_plain else "read as"
        say(f"Nothing found{f' ({how}: {result.reading})' if result.reading else ''}: {result.reason}.")
    elif result.reason:
        say(f"Read as {result.reading}: {result.reason}.")
    if result.approximate and page is not None:
        say("So many match that only the newest were ranked; give more words or filters, or --newest.")
    if result.more and page is not None:
        say(f"There are more: --page {page + 1}")
    if result.waiting:
        say(f"{count(result.waiting, 'line')} not indexed yet; run: transcripts sync")


# -- interactive -----------------------------------------------------------------------------------------------------------


def _pick(settings: Settings, text: str, filters: dict[str, Any], options: dict[str, Any]) -> int:
    """Let the user pick a hit, and go on with its session in the client."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise InvalidRequest("--interactive needs a terminal; without one: transcripts search QUERY")
    from transcripts.interfaces.cli.picker import Picker, as_typed

    with settings.opened() as index:  # imports what is new, once: the questions below come with every key
        _settle(index, filters)
        first = index.search(as_typed(text), **filters, **options)
    with settings.opened(fresh=False) as index:
        shared = index.shared_ids()
        hit = Picker(partial(index.search, **filters, **options), text, first, shared).run()
        if hit is None:
            return STOPPED
        try:
            info = index.session(session_path(hit))
            start_client(info, fork=False)
        except TranscriptsError as error:
            say(str(error))
            write(resume_command(hit, shared))
            return 0
