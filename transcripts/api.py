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
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

from transcripts.errors import DatabaseBusy, InvalidRequest, NotFound, Problem
from transcripts.export import jsonl
from transcripts.index import sync as _sync
from transcripts.index import verify as _verify
from transcripts.index.database import Database
from transcripts.index.report import ImportReport, Progress
from transcripts.sessions import agents, branches, catalog, chain, query
from transcripts.sessions.agents import SubAgent
from transcripts.sessions.branches import Branch, Stretch
from transcripts.sessions.catalog import SessionInfo, Transcript
from transcripts.sessions.chain import Chain
from transcripts.sessions.query import QueryResult

_PATIENCE = 0.2  # seconds that a question waits for a writer before it answers from what is there


class Index:
    """The database of transcripts, open.

    Use it as a context manager, or call `close`. One Index may be used by several threads, one question at a time each.
    """

    def __init__(self, database: Database, fresh: bool, source: str, progress: Callable[[Progress], None] | None) -> None:
        self._database = database
        self._fresh = fresh
        self._source = source
        self._progress = progress
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
    ) -> Self:
        """Open a database by its path or URL; it is made, or upgraded, when needed.

        `fresh=False` answers from what was imported before. `source` names this machine where several share one database.
        `progress` is called while a question imports first. Raises DatabaseUnusable, DatabaseTooNew and DatabaseBusy.
        """
        return cls(Database(db), fresh, source, progress)

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
        return _sync.sync(self._database, self._source, given, progress or self._progress, texts=texts)

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
        activity. `empty=False` leaves out sessions without a message.
        """
        self._refresh(None)
        with self._database.read() as connection:
            return catalog.listed(
                connection, project=project, tag=tag, since=since, until=until, empty=empty, limit=limit, offset=offset
            )

    def session(self, session: str) -> SessionInfo:
        """One session: by id, unique prefix, exact title, path of its transcript, or `latest`.

        Raises NotFound and Ambiguous.
        """
        found = self._located(session)
        with self._database.read() as connection:
            return catalog.info(connection, self._main(found))

    def transcript(self, session: str, version: int | None = None) -> Transcript:
        """Which file a name means, a sub-agent's by its path too; `others` are files of the same session id elsewhere."""
        return self._located(session, version)

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
                _agent, found, level = agents.find(connection, found, agent)
        return chain.resume(self._database.read, found, rules=rules, leaf=leaf, last=last, level=level)

    def branches(self, session: str) -> list[Branch]:
        """Every end of a session, the resumed one first, then the newest: any `leaf` of them can be resumed."""
        found, resumed = self._resumed(session)
        with self._database.read() as connection:
            return branches.listed(connection, found.file, resumed)

    def tree(self, session: str) -> list[Stretch]:
        """The tree of a session as stretches between its forks, one for each root: for a picture of it."""
        found, resumed = self._resumed(session)
        with self._database.read() as connection:
            return branches.tree(connection, found.file, resumed)

    def subagents(self, session: str) -> list[SubAgent]:
        """The sub-agents of a session, oldest first, each with the call that started it: `resume(..., agent=id)` takes any."""
        found = self._located(session)
        with self._database.read() as connection:
            return agents.listed(connection, found)

    def newest(self, directories: Sequence[str]) -> SessionInfo:
        """The newest session with a message that was started in one of these directories. Raises NotFound."""
        self._refresh(None)
        with self._database.read() as connection:
            return catalog.newest(connection, directories)

    def lines(self, session: str, version: int | None = None) -> Iterable[bytes]:
        """All lines of a transcript as they stand in it, in order, without their newline."""
        found = self._located(session, version)
        with self._database.read() as connection:
            return list(jsonl.lines(connection, found.file))

    def problems(self, session: str) -> list[Problem]:
        """The faults found in a session's transcript, in order."""
        found = self._located(session)
        with self._database.read() as connection:
            return catalog.problems_of(connection, found)

    def sql(self, statement: str, params: tuple[Any, ...] | dict[str, Any] = (), *, seconds: float = 60) -> QueryResult:
        """Run one SQL statement, truly read-only, for at most so many seconds. Raises QueryRefused."""
        self._refresh(None)
        return query.run(self._database, statement, params, seconds)

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

    # -- freshness ---------------------------------------------------------------------------------------------------------

    def _located(self, session: str, version: int | None = None) -> Transcript:
        """Find a transcript, and bring its own files up to date."""
        try:
            with self._database.read() as connection:
                found = catalog.find(connection, session, version)
        except NotFound:
            if not self._refresh(None):
                raise
            with self._database.read() as connection:
                return catalog.find(connection, session, version)
        if self._refresh(None if session == "latest" else found):
            with self._database.read() as connection:
                return catalog.find(connection, session, version)
        return found

    def _refresh(self, scope: Transcript | None) -> bool:
        """Import what has grown in a session's files, or in all roots; whether anything changed."""
        self.stale = False
        if not self._fresh:
            return False
        paths = None if scope is None else scope.places
        with self._database.patience(_PATIENCE):
            try:
                report = _sync.sync(self._database, self._source, paths, self._progress, remember=False, texts=False)
                return report.changed
            except DatabaseBusy:
                self.stale = True
                return False

    def _resumed(self, session: str) -> tuple[Transcript, str | None]:
        found = self._located(session)
        return found, chain.resume(self._database.read, found, rules="current", leaf=None, last=1).leaf

    def _main(self, found: Transcript) -> int:
        if found.kind != "main":
            raise InvalidRequest(f"{found.path} is a sub-agent's transcript, not a session")
        return found.file
