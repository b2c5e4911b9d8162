"""Index: the one handle. Each method is one call into the floors below.

Invariants:
- Fresh by default: a question first imports what has grown in its scope (a session's own files, or all synced roots); the
  search index waits for the next sync. Where another process writes for longer than 200 ms, the answer comes from what is
  there and `stale` says so.
- Each question sees one moment: it runs in one read transaction.
- Nothing here reads the environment; `transcripts.open()` takes the defaults.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

from transcripts import sessions
from transcripts.errors import DatabaseBusy, InvalidRequest, NotFound, Problem
from transcripts.export import jsonl, parquet
from transcripts.index import fulltext, prices, removal, settings, zones
from transcripts.index import sync as _sync
from transcripts.index import verify as _verify
from transcripts.index.database import Database
from transcripts.index.memory import Memory
from transcripts.index.removal import Forgotten
from transcripts.index.report import ImportReport, Progress
from transcripts.index.zones import Zone

if TYPE_CHECKING:
    from transcripts.sessions.agents import SubAgent
    from transcripts.sessions.analytics import Stats
    from transcripts.sessions.branches import Branch, Stretch
    from transcripts.sessions.catalog import SessionInfo, Transcript
    from transcripts.sessions.chain import Chain
    from transcripts.sessions.filters import Filters
    from transcripts.sessions.ondisk import AgentFile, SessionFile, Turns
    from transcripts.sessions.query import QueryResult
    from transcripts.sessions.recorder import Recorder
    from transcripts.sessions.recording import Message, Place, Stamps
    from transcripts.sessions.search import SearchResult
    from transcripts.sessions.storing import Store

_ALL = slice(None)
_FEW_TEXTS = 2000  # lines that a search indexes first; where more wait it answers without them
PATIENCE = 0.2
"""Seconds that a question waits for a writer before it answers from what is there."""


class Index:
    """The database of transcripts, open.

    Use it as a context manager, or call `close`. One Index may be used by several threads, one question at a time each.
    """

    def __init__(
        self,
        database: Database,
        fresh: bool,
        source: str,
        progress: Callable[[Progress], None] | None,
        patience: float = PATIENCE,
        zone: str | Callable[[], Zone] | None = None,
    ) -> None:
        self._database = database
        self._fresh = fresh
        self._source = source
        self._progress = progress
        self._patience = patience
        self._zone = zone
        self._memory = Memory()
        self.stale = False
        """Whether the last question was answered without what a busy writer kept it from importing."""

    @classmethod
    def open(
        cls,
        db: str | os.PathLike[str],
        fresh: bool = True,
        *,
        source: str = "local",
        progress: Callable[[Progress], None] | None = None,
        patience: float = PATIENCE,
        zone: str | Callable[[], Zone] | None = None,
    ) -> Self:
        """Open a database by its path or URL; it is made, or upgraded, when needed.

        `fresh=False` answers from what was imported before. `source` names this machine where several share one database.
        `progress` is called while a question imports first, which waits `patience` seconds for another writer. `zone` is the
        time zone that days are of: a name like Europe/Berlin, or a function that finds one; without it the one that the
        database had last, at first UTC. Raises DatabaseUnusable, DatabaseTooNew and DatabaseBusy.
        """
        return cls(Database(db), fresh, source, progress, patience, zone)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def path(self) -> str:
        """Where the database lies: a path, or a URL without its password."""
        return self._database.path

    # -- importing ---------------------------------------------------------------------------------------------------------

    def sync(
        self,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        progress: Callable[[Progress], None] | None = None,
        *,
        texts: bool = True,
    ) -> ImportReport:
        """Import what is new below the paths, and remember them as roots; without paths, below all roots.

        Without `texts` the lines are imported and the search index waits for the next sync: most of the time is spent there.
        A path is a config folder, a projects folder, one project, or one file. Faults in files are in the report, never
        raised; DatabaseBusy is. Cost: the new bytes, and one stat a file.
        """
        given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        if self._zone is not None:
            self._settle()
        return _sync.sync(self._database, self._source, given, progress or self._progress, texts=texts, memory=self._memory)

    def roots(self) -> list[str]:
        """The paths that were synced, in order."""
        return _sync.known_roots(self._database, self._source)

    # -- asking ------------------------------------------------------------------------------------------------------------

    def sessions(
        self,
        *,
        project: str | None = None,
        tag: str | None = None,
        since: int | None = None,
        until: int | None = None,
        empty: bool = True,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """The sessions, newest activity first.

        `project` is a path, a part of one, or a folder's name. `since` and `until` are milliseconds UTC and bound the last
        activity. `empty=False` leaves out sessions without a message. Cost: a pass over the sessions, once while nothing was
        written to the database.
        """
        self._refresh(None)
        key, version = ("sessions", project, tag, since, until, empty, limit, offset), self._database.version()
        if (found := self._memory.recall(key, version)) is None:
            with self._database.read() as connection:
                found = sessions.catalog.listed(
                    connection, project=project, tag=tag, since=since, until=until, empty=empty, limit=limit, offset=offset
                )
            self._memory.keep(key, version, found)
        return list(found)

    def session(self, session: str) -> SessionInfo:
        """One session: by id, unique prefix, exact title, path of its transcript, or `latest`.

        Raises NotFound and Ambiguous.
        """
        found = self._located(session)
        with self._database.read() as connection:
            return sessions.catalog.info(connection, self._main(found))

    def transcript(self, session: str, version: int | None = None) -> Transcript:
        """Which file a name means, a sub-agent's by its path too; `others` are files of the same session id elsewhere."""
        return self._located(session, version)

    def shared_ids(self) -> frozenset[str]:
        """The ids that several sessions have, in projects of their own: each of them is named by the path of its transcript."""
        with self._database.read() as connection:
            return sessions.catalog.shared_ids(connection)

    def resume(
        self,
        session: str,
        rules: str = "current",
        leaf: str | None = None,
        last: int | None = None,
        *,
        agent: str | None = None,
    ) -> Chain:
        """The chain of messages that the client would resume, oldest first.

        `rules` are `current` or `classic`, `leaf` is the uuid to end at instead of the one the rules choose, `last` gives only
        the last entries, `agent` is the id of a sub-agent whose chain is meant. A session without a conversation gives a
        chain without entries that says why. Raises NotFound, Ambiguous and InvalidRequest. Cost: the chain, not the session.
        """
        found = self._located(session)
        level = None
        if agent is not None:
            with self._database.read() as connection:
                _agent, found, level = sessions.agents.find(connection, found, agent)
        return sessions.chain.resume(self._database.read, found, rules=rules, leaf=leaf, last=last, level=level)

    def branches(self, session: str) -> list[Branch]:
        """Every end of a session, the resumed one first, then the newest: any `leaf` of them can be resumed."""
        found, resumed = self._resumed(session)
        with self._database.read() as connection:
            return sessions.branches.listed(connection, found.file, resumed)

    def tree(self, session: str) -> list[Stretch]:
        """The tree of a session as stretches between its forks, one for each root: for a picture of it."""
        found, resumed = self._resumed(session)
        with self._database.read() as connection:
            return sessions.branches.tree(connection, found.file, resumed)

    def subagents(self, session: str) -> list[SubAgent]:
        """The sub-agents of a session, oldest first, each with the call that started it: `resume(..., agent=id)` takes any."""
        found = self._located(session)
        with self._database.read() as connection:
            return sessions.agents.listed(connection, found)

    def newest(self, directories: Sequence[str]) -> SessionInfo:
        """The newest session with a message that was started in one of these directories. Raises NotFound."""
        self._refresh(None)
        with self._database.read() as connection:
            return sessions.catalog.newest(connection, directories)

    def search(
        self,
        query: str,
        *,
        project: str | None = None,
        session: str | None = None,
        role: str | None = None,
        kind: str | None = None,
        tool: str | None = None,
        model: str | None = None,
        branch: str | None = None,
        since: int | None = None,
        until: int | None = None,
        sidechains: bool = True,
        live: bool = False,
        replaced: bool = False,
        newest: bool = False,
        by_session: bool = False,
        context: int = 0,
        limit: int = 20,
        offset: int = 0,
    ) -> SearchResult:
        """The messages in which the words of a query stand, best first.

        The query has words, "phrases", beginnings*, AND, OR, NOT, parentheses and columns (prompt: reply: tool: result: ...);
        what is no valid expression is taken as plain words. The filters combine: `project` is a path, a part of one or a
        folder's name; `session` any name of one; `role` is user, assistant or system; `kind` a column; `tool` a tool's name;
        `model` a part of one; `branch` a branch of git; `since` and `until` milliseconds UTC. `sidechains=False` leaves out
        what sub-agents said, `live` what the resumed chains do not hold; `replaced` adds what only an older version of a file
        holds. `newest` sorts by time, `by_session` gives the best hit of each session, `context` so many messages around each.
        Raises InvalidRequest for an unknown role or kind, NotFound and Ambiguous for the session. Cost: bounded, see search.py.
        """
        wanted = self._filters(
            project=project, session=session, role=role, kind=kind, tool=tool, model=model, branch=branch, since=since,
            until=until, sidechains=sidechains, live=live, replaced=replaced,
        )  # fmt: skip
        return sessions.search.search(
            self._database.read, query, wanted, now=time.time_ns() // 1_000_000, newest=newest, by_session=by_session,
            context=context, limit=limit, offset=offset,
        )  # fmt: skip

    def search_count(self, query: str, **filters: Any) -> int:
        """How many messages match, with the filters of `search`. Cost: all matches."""
        wanted = self._filters(**filters)
        with self._database.read() as connection:
            return sessions.search.count(connection, query, wanted)

    def lines(self, session: str, version: int | None = None) -> Iterable[bytes]:
        """All lines of a transcript as they stand in it, in order, without their newline."""
        found = self._located(session, version)
        with self._database.read() as connection:
            return list(jsonl.lines(connection, found.file))

    def session_files(self, within: Sequence[str]) -> list[SessionFile]:
        """The live sessions whose file is one of these paths or lies below one, what changed last first.

        The paths are real ones (os.path.realpath). Only what lies there is brought up to date, whether it was synced before or
        not, and of that no sub-agent. Cost: a stat a session, and a few microseconds each when anything was written since.
        """
        self._refresh_within(within, sessions_only=True)
        key, version = ("session files", *within), self._database.version()
        if (found := self._memory.recall(key, version)) is None:
            with self._database.read() as connection:
                found = sessions.ondisk.session_files(connection, self._source, within)
            self._memory.keep(key, version, found)
        return list(found)

    def agent_files(self, path: str) -> list[AgentFile]:
        """The live files of the sub-agents of a session, given by its transcript's path, by their place in its folder."""
        folder = path.removesuffix(".jsonl")
        self._refresh_within([folder])
        with self._database.read() as connection:
            return sessions.ondisk.agent_files(connection, self._source, folder)

    def agent_meta(self, path: str) -> dict[str, Any]:
        """What stands in the meta file of a sub-agent, given by its transcript's path; {} when there is none."""
        with self._database.read() as connection:
            return sessions.ondisk.agent_meta(connection, self._source, path)

    def turns(self, path: str, part: slice = _ALL) -> Iterator[bytes]:
        """The records of a live transcript's turns, or of a part of them, given by its path: the user and assistant lines of
        the chain that would be resumed, oldest first, with those that would not be sent again, without machine text.

        Nothing when there is no such file. Cost: the chain, once while the file is as it was; then what is asked for.
        """
        self._refresh_within([path])
        with self._database.read() as connection:
            yield from self._turns.read(connection, self._source, path, part)

    def problems(self, session: str) -> list[Problem]:
        """The faults found in a session's transcript, in order."""
        found = self._located(session)
        with self._database.read() as connection:
            return sessions.catalog.problems_of(connection, found)

    def sql(self, statement: str, params: tuple[Any, ...] | dict[str, Any] = (), *, seconds: float = 60) -> QueryResult:
        """Run one SQL statement, truly read-only, for at most so many seconds. Raises QueryRefused.

        On SQLite entry_json(id) gives the record of an entry as it stands in its file.
        """
        self._refresh(None)
        try:
            with self._database.patience(self._patience):
                self._settle()
        except DatabaseBusy:
            self.stale = True
        return sessions.query.run(self._database, statement, params, seconds)

    def sql_tables(self) -> dict[str, tuple[str, ...]]:
        """The tables and views that `sql` can ask, with their columns: the views first, then by name."""
        with self._database.read() as connection:
            return sessions.query.tables(connection)

    def stats(
        self,
        by: str = "day",
        *,
        since: int | None = None,
        until: int | None = None,
        project: str | None = None,
        prices_from: str | os.PathLike[str] | None = None,
    ) -> Stats:
        """Tokens and costs by day, week, month, project, model or session, or the calls by tool.

        `since` and `until` (not itself in it) are milliseconds UTC; `project` is a path, a part of one, or a folder's name.
        `prices_from` is a file with prices, which the database keeps from then on, or "shipped" for those of this release.
        Raises InvalidRequest and DatabaseBusy. Cost: the replies, or calls, that there are.
        """
        self._refresh(None)
        given = None
        if prices_from is not None:
            given = prices.shipped() if prices_from == prices.SHIPPED else prices.load(prices_from)
        self._settle(given)
        with self._database.read() as connection:
            return sessions.analytics.stats(connection, by, since=since, until=until, project=project)

    # -- out again ---------------------------------------------------------------------------------------------------------

    def export(
        self,
        session: str,
        out: str | os.PathLike[str] | BinaryIO,
        format: str = "jsonl",
        *,
        version: int | None = None,
        with_files: bool = False,
    ) -> list[str]:
        """Write a transcript as it was, byte for byte, also one that is gone; the paths written.

        `out` is an open binary file, a new file's path, or with `with_files` a folder that takes sub-agents and side files
        too, laid out as the client does. Raises FileExists: nothing is ever written over.
        """
        if format != "jsonl":
            raise InvalidRequest(f"there is no format {format!r}; there is: jsonl")
        found = self._located(session, version)
        with self._database.read() as connection:
            if not isinstance(out, (str, os.PathLike)):
                jsonl.write_bytes(connection, found.file, out)
                return []
            path = os.fspath(out)
            if with_files:
                return jsonl.write_session(connection, found, path, with_files)
            jsonl.write_file(connection, found.file, path)
            return [path]

    def export_parquet(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the tables that the views stand on as Parquet files into a folder, with the views as SQL for DuckDB; the paths.

        Raises FileExists: nothing is written over; and InvalidRequest where the extra `parquet` is missing.
        """
        self._refresh(None)
        self._settle()
        with self._database.read() as connection:
            return parquet.write_tables(connection, os.path.abspath(folder))

    def restore(self, session: str) -> list[str]:
        """Write a session that is gone back to where it lay, with its sub-agents and side files; the paths written.

        Files of it that still stand are left as they are. Raises FileExists when its transcript does.
        """
        found = self._located(session)
        if found.kind != "main":
            raise InvalidRequest(f"{found.path} is a sub-agent's transcript; restore its session instead")
        with self._database.read() as connection:
            written = jsonl.restore_session(connection, found)
        _sync.sync(self._database, self._source, written, remember=False)
        return written

    # -- writing -----------------------------------------------------------------------------------------------------------

    def record(
        self,
        session: str,
        messages: Iterable[Message],
        parent: str | None = None,
        *,
        stamps: Stamps | None = None,
        fsync: bool = False,
    ) -> str | None:
        """Append messages to a session's transcript, by the rules of the client's own writer; the parent to give next time.

        `messages` are entries as a transcript has them. One whose uuid stands there already is not written again; `parent` is
        the uuid that the first new one hangs on (None: it begins a conversation; `adopt` goes on with one). uuid, parentUuid,
        sessionId and timestamp are stamped, and what `stamps` gives. A session that is not there begins with its first user or
        assistant message, and nothing is written before: `session` is then the path of its transcript, or its id, with its
        directory as the stamp `cwd`. `fsync` waits until all of it is on the disk.

        Raises InvalidRequest, NotFound, Ambiguous, NotWritten, TranscriptBusy and DatabaseBusy; a call may then be repeated.
        Cost: linear in what is given.
        """
        place = self._place(session, stamps)
        stamps = stamps or sessions.recording.Stamps()
        return sessions.recording.record_once(self._database, self._source, place, messages, parent, stamps, fsync)

    def recorder(self, session: str, *, stamps: Stamps | None = None, fsync: bool = False) -> Recorder:
        """A recorder for a list of messages that grows, of a session that begins with it. Arguments as those of `record`."""
        stamps = stamps or sessions.recording.Stamps()
        return sessions.recorder.recorder(self._database, self._source, self._place(session, stamps), stamps, fsync)

    def adopt(self, session: str, *, stamps: Stamps | None = None, fsync: bool = False) -> Recorder:
        """A recorder that goes on with a session: its next message hangs on the leaf of the chain that `resume` gives.

        Raises InvalidRequest for a session whose file is gone: `restore` it first.
        """
        stamps = stamps or sessions.recording.Stamps()
        return sessions.recorder.adopted(self._database, self._source, self._located(session), stamps, fsync)

    def store(self, root: str | os.PathLike[str]) -> Store:
        """The transcripts below a folder, as others name them: by a project's key, a session's id and a subpath.

        What an earlier process wrote there and could not import any more is imported first.
        """
        return sessions.storing.Store(self._database, self._source, os.fspath(root))

    def rename(self, session: str, title: str) -> None:
        """Give a session a title, without the white space around it. Raises InvalidRequest when nothing can be seen."""
        sessions.mutations.rename(self._database, self._source, self._located(session), title)

    def tag(self, session: str, tag: str) -> None:
        """Give a session its tag, in place of another: in normal form (NFKC), without invisible characters.

        Raises InvalidRequest when nothing is left of it.
        """
        sessions.mutations.tag(self._database, self._source, self._located(session), tag)

    def untag(self, session: str) -> None:
        """Take a session's tag away."""
        sessions.mutations.untag(self._database, self._source, self._located(session))

    def fork(
        self, session: str, *, way: Literal["client", "sdk"] = "client", up_to: str | None = None, title: str | None = None
    ) -> str:
        """Copy a session into a new transcript beside it; the id of the new session. One whose file is gone can be forked too.

        `client`: the chain that `resume` gives (with `up_to`: that ends at this uuid), its uuids kept, and title, tag and mode.
        `sdk`: all lines of the session up to the first with the uuid `up_to`, with new uuids and a note where they are from
        (forkedFrom), the time of the last one now; the title is the old one with " (fork)" unless one is given.
        Raises InvalidRequest when there is nothing to fork, NotFound when there is no such message.
        """
        return sessions.forking.fork(self._database, self._source, self._located(session), way, up_to, title)

    def delete(self, session: str) -> list[str]:
        """Remove a session's files from the disk: its transcript, its folder and its sub-agents; the paths removed, in order.

        All of it stays in the database, marked `deleted`, and `restore` writes it back. A file that could not be kept stays,
        and so does what a link leads to. Raises InvalidRequest for a transcript that is a link.
        """
        return sessions.mutations.delete(self._database, self._source, self._located(session))

    def forget(self, *names: str) -> Forgotten:
        """Remove sessions from the database for good, with their sub-agents, side files and all versions.

        Files that still lie on the disk are left alone and never imported again, nor from a project's folder that was renamed;
        `delete` removes them first. Bytes that other
        sessions hold as well stay theirs. Cost: the database is written anew once.
        """
        return removal.forget(self._database, [sessions.places.named(self._located(name)) for name in names])

    # -- care --------------------------------------------------------------------------------------------------------------

    def verify(self, progress: Callable[[Progress], None] | None = None) -> list[Problem]:
        """All that is wrong: first where the database disagrees with its kept bytes, then what is damaged in the files.

        Empty means good. Cost: everything is derived again and compared.
        """
        self._refresh(None)
        return [*self.damage(progress), *self.faults()]

    def damage(self, progress: Callable[[Progress], None] | None = None) -> list[Problem]:
        """Where the database disagrees with its kept bytes; `rebuild` mends what is derived."""
        return _verify.damage(self._database, progress or self._progress)

    def faults(self) -> list[Problem]:
        """What is damaged in the files themselves: lines that are no records, parents that are missing, and the like."""
        return _verify.faults(self._database)

    def rebuild(self, progress: Callable[[Progress], None] | None = None) -> ImportReport:
        """Make everything derived anew from the kept bytes. Stopped anywhere, the next sync goes on with it."""
        return _verify.rebuild(self._database, progress or self._progress)

    @cached_property
    def _turns(self) -> Turns:
        return sessions.ondisk.Turns()

    # -- freshness ---------------------------------------------------------------------------------------------------------

    def _located(self, session: str, version: int | None = None) -> Transcript:
        """Find a transcript, and bring its own files up to date."""
        try:
            with self._database.read() as connection:
                found = sessions.catalog.find(connection, session, version)
        except NotFound:
            if not self._refresh(None):
                raise
            with self._database.read() as connection:
                return sessions.catalog.find(connection, session, version)
        if self._refresh(None if session == "latest" else found):
            with self._database.read() as connection:
                return sessions.catalog.find(connection, session, version)
        return found

    def _settle(self, given: prices.Prices | None = None) -> None:
        """Let the views go by the user's zone, and by these prices."""
        zone = zones.named(self._zone) if isinstance(self._zone, str) else self._zone and self._zone()
        settings.settle(self._database, zone, given)

    def _refresh(self, scope: Transcript | None) -> bool:
        """Import what has grown in a session's files, or in all roots; whether anything changed."""
        return self._refresh_within(None if scope is None else scope.places)

    def _refresh_within(self, paths: Sequence[str] | None, sessions_only: bool = False) -> bool:
        """Import what has grown below these paths, or in all roots; whether anything changed."""
        self.stale = False
        if not self._fresh:
            return False
        with self._database.patience(self._patience):
            try:
                report = _sync.sync(
                    self._database, self._source, paths, self._progress, remember=False, texts=False,
                    sessions_only=sessions_only, memory=self._memory,
                )  # fmt: skip
                return report.changed
            except DatabaseBusy:
                self.stale = True
                return False

    def _filters(self, *, session: str | None = None, **wanted: Any) -> Filters:
        """What a search is narrowed to; the index is brought up to date first, unless much waits for it."""
        if not self._database.is_sqlite:
            raise InvalidRequest("only a SQLite database has a search index")
        found = None if session is None else self._located(session)
        self._refresh(None)
        if self._fresh:
            with self._database.patience(self._patience):
                try:
                    with self._database.read() as connection:
                        waiting = fulltext.pending(connection)
                    if waiting <= _FEW_TEXTS:
                        fulltext.drain(self._database, limit=_FEW_TEXTS)
                except DatabaseBusy:
                    self.stale = True
        return sessions.filters.Filters(session=found, **wanted)

    def _place(self, session: str, stamps: Stamps | None) -> Place:
        """Where to record a session, which may not be there yet."""
        try:
            found = self._located(session)
        except NotFound:
            return sessions.places.new(self._database, self._source, session, stamps.cwd if stamps else None)
        return sessions.places.known(self._database, self._source, found)

    def _resumed(self, session: str) -> tuple[Transcript, str | None]:
        found = self._located(session)
        return found, sessions.chain.resume(self._database.read, found, rules="current", leaf=None, last=1).leaf

    def _main(self, found: Transcript) -> int:
        if found.kind != "main":
            raise InvalidRequest(f"{found.path} is a sub-agent's transcript, not a session")
        return found.file
