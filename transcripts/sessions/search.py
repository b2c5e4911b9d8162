"""Full text: which messages match a query, best or newest first, and why none does.

Invariants:
- No query is an error, and none is silently empty: the result tells how it was read and, when there is nothing, why.
- Matches are found by the index alone (matching.py); texts are read for the hits that are shown, no others (hits.py).
- One hit a message, whatever lines it has and in whatever forks and copies it stands.
- Pages go on where the one before ended, as long as nothing was written between them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from transcripts.errors import InvalidRequest
from transcripts.index import fulltext
from transcripts.sessions import expression
from transcripts.sessions.expression import Expression
from transcripts.sessions.filters import Filters, Narrowing, narrowing
from transcripts.sessions.hits import Hit, Hits
from transcripts.sessions.matching import Matching

Connect = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of a page, in order, and the truth about them.

    `reading` is how the query was read, `is_plain` says that it was no valid expression and was taken as plain words, `reason`
    why that is so or why there is no hit. `approximate` is True when only the newest matches of a common word were ranked,
    `more` when there are further hits. `waiting` is the number of lines that are imported but not indexed yet.
    """

    query: str
    reading: str
    is_plain: bool
    reason: str | None
    hits: tuple[Hit, ...]
    approximate: bool
    more: bool
    waiting: int


def search(
    connect: Connect,
    query: str,
    wanted: Filters,
    *,
    now: int,
    newest: bool = False,
    by_session: bool = False,
    context: int = 0,
    limit: int = 20,
    offset: int = 0,
) -> SearchResult:
    """The messages that match a query, best first, or with `newest` by time; `by_session` gives the best of each session.

    `now` is the time that recent is told from, in milliseconds UTC. `context` is how many messages around each hit come with
    it. Raises InvalidRequest for numbers below 0. Cost: what is shown and what is passed over for it, not what matches.
    """
    if min(context, limit, offset) < 0:
        raise InvalidRequest("limit, offset and context are numbers from 0 on")
    read = expression.read(query)
    with connect() as connection:
        waiting = fulltext.pending(connection)
        narrow = narrowing(connection, wanted)
        if read.match is None or narrow.impossible:
            reason = narrow.impossible if read.match else read.reason
            return SearchResult(query, read.reading, read.is_plain, reason, (), False, False, waiting)
        matching = Matching(connection, read.match, narrow)
        found = Hits(connect, connection, read.terms, live=wanted.live, replaced=wanted.replaced)
        matches = matching.newest() if newest else matching.best(now)
        page, more = found.page(matches, by_session=by_session, context=context, limit=limit, offset=offset)
        if by_session:
            page = [replace(hit, matches=matching.count_in(*place)) for hit, place in zip(page, found.places, strict=True)]
        reason = read.reason if page else _why_nothing(read, narrow, matching, found, offset)
        return SearchResult(query, read.reading, read.is_plain, reason, tuple(page), matching.approximate, more, waiting)


def count(connection: Connection, query: str, wanted: Filters) -> int:
    """How many messages match; a message of several lines counts once, each copy in a fork too. Cost: all matches."""
    read = expression.read(query)
    narrow = narrowing(connection, wanted)
    if read.match is None or narrow.impossible:
        return 0
    if wanted.live:
        raise InvalidRequest("messages of the live chain cannot be counted; leave one of the two out")
    return Matching(connection, read.match, narrow).count()


def _why_nothing(read: Expression, narrow: Narrowing, matching: Matching, found: Hits, offset: int) -> str:
    if found.folded:
        why = "there are no further hits"
    elif found.left_out:
        why = found.left_out
    elif narrow.is_timed and not narrow.spans:
        why = "no message is of that time"
    elif missing := [term.shown for term in read.terms if not matching.any(term.match)]:
        why = f"nowhere stands: {', '.join(missing)}"
    else:
        why = "all matches are filtered out" if matching.any() else "the words stand in no message together"
    return f"{read.reason}; {why}" if read.reason else why
