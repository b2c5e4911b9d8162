"""Which sessions there are, and which one a name means.

Invariants:
- A session is a main transcript; its id is its file's name. The files of one id in several projects form a group: a name
  that meets a group means the live one with the newest message, and the others are named beside it.
- `last_activity_at` is the time of the newest message, never that of the file.
- Order is newest activity first; sessions without a dated message come last; equal times by id.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from transcripts.errors import Ambiguous, NotFound, Problem
from transcripts.index import tombstones
from transcripts.index.schema import files, problems, projects, session_models, sessions


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it.

    Times are integer milliseconds since 1970 UTC, `size` is bytes. `title_kind` says where the title is from: custom-title,
    ai-title, summary or prompt. `state` is live, gone (the file vanished) or deleted. `version` is the client's, `versions`
    how often the file was rewritten, plus one. `unfinished` is the length in bytes of a last line that is not whole yet.
    """

    id: str
    project: str
    project_key: str
    source: str
    path: str
    state: str
    title: str | None
    title_kind: str | None
    tag: str | None
    first_prompt: str | None
    cwd: str | None
    git_branch: str | None
    version: str | None
    models: tuple[str, ...]
    created_at: int | None
    last_activity_at: int | None
    message_count: int
    prompt_count: int
    tool_call_count: int
    unanswered_count: int
    missing_parent_count: int
    compaction_count: int
    entry_count: int
    problem_count: int
    agent_count: int
    versions: int
    size: int
    unfinished: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to resume: metadata lines only."""
        return self.message_count == 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file that a name means: one version of a main or sub-agent transcript, and the other sessions of the same id."""

    file: int
    kind: str
    path: str
    version: int
    source: str
    project_key: str
    session_id: str | None
    agent_id: str | None
    state: str
    kept_size: int
    others: tuple[str, ...] = ()

    @property
    def places(self) -> list[str]:
        """Where the files of it lie on disk: the transcript, and for a session its folder if there is one, not a link to one."""
        folder = self.path.removesuffix(".jsonl")
        has_folder = self.kind == "main" and os.path.isdir(folder) and not os.path.islink(folder)
        return [self.path, folder] if has_folder else [self.path]


def listed(
    connection: Connection,
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

    `project` is a project's path, a part of it or its folder's name; `since` and `until` bound the last activity in
    milliseconds; `empty` keeps sessions without a message. Cost: one pass over the sessions.
    """
    wanted: list[ColumnElement[bool]] = []
    if project is not None:
        wanted.append(in_project(project))
    if tag is not None:
        wanted.append(sessions.c.tag == tag)
    if since is not None:
        wanted.append(sessions.c.last_activity_at >= since)
    if until is not None:
        wanted.append(sessions.c.last_activity_at < until)
    if not empty:
        wanted.append(sessions.c.message_count > 0)
    return _infos(connection, _query().where(*wanted).limit(limit).offset(offset or None))


def in_project(project: str) -> ColumnElement[bool]:
    """The condition on `projects` for a path, a part of one, or a folder's name."""
    return or_(projects.c.path.contains(project, autoescape=True), projects.c.key == project)


def shared_ids(connection: Connection) -> frozenset[str]:
    """The ids that several sessions have, of which a name can mean one alone. Cost: a pass over the ids."""
    many = select(sessions.c.session_id).group_by(sessions.c.session_id).having(func.count() > 1)
    return frozenset(connection.scalars(many))


def info(connection: Connection, file: int) -> SessionInfo:
    """One session by the key of its transcript. Raises NotFound."""
    found = _infos(connection, _query().where(sessions.c.file == file))
    if not found:
        raise NotFound("no session has this transcript")
    return found[0]


def newest(connection: Connection, directories: Sequence[str]) -> SessionInfo:
    """The newest session with a message that began in one of the directories. Raises NotFound."""
    here = _query().where(sessions.c.cwd.in_(directories), sessions.c.message_count > 0, files.c.state == "live").limit(1)
    if found := _infos(connection, here):
        return found[0]
    raise NotFound(
        f"no session was started in {directories[0]}; see: transcripts list" if directories else "no directory was given"
    )


def find(connection: Connection, name: str, version: int | None = None) -> Transcript:
    """The transcript that a name means: a session id or a unique prefix of one, an exact title, a transcript's path, `latest`.

    `version` picks an older version of it, 1 for the first. Raises NotFound, and Ambiguous with what it could be.
    """
    row, others = _found(connection, name)
    if version is not None and version != row.version:
        older = connection.execute(
            select(files).where(files.c.source == row.source, files.c.path == row.path, files.c.version == version)
        ).one_or_none()
        if older is None:
            raise NotFound(f"{row.path} has the versions 1 to {row.version}, not {version}")
        row = older
    return transcript_of(row, others)


def transcript_of(row: Row[Any], others: tuple[str, ...] = ()) -> Transcript:
    """The transcript of a row of `files`."""
    return Transcript(
        row.id, row.kind, row.path, row.version, row.source, row.project_key, row.session_id, row.agent_id, row.state,
        row.kept_size, others,
    )  # fmt: skip


def problems_of(connection: Connection, transcript: Transcript) -> list[Problem]:
    """The faults recorded of a transcript, in order of their place."""
    rows = connection.execute(
        select(problems).where(problems.c.file == transcript.file).order_by(problems.c.offset, problems.c.id)
    )
    return [Problem(transcript.path, row.reason, row.offset, row.length, row.excerpt) for row in rows]


# -- names -------------------------------------------------------------------------------------------------------------


def _found(connection: Connection, name: str) -> tuple[Row[Any], tuple[str, ...]]:
    if name == "latest":
        newest = sessions.c.last_activity_at.desc().nulls_last()
        one = connection.execute(
            _candidates().where(sessions.c.message_count > 0).order_by(newest, sessions.c.session_id).limit(1)
        )
        if rows := one.all():
            return rows[0], ()
        raise NotFound("there is no session with a message yet; import some with: transcripts sync")
    for condition in (sessions.c.session_id == name, sessions.c.title == name):
        if name and (rows := connection.execute(_candidates().where(condition)).all()):
            return _chosen(name, rows)
    if os.sep in name or name.endswith(".jsonl"):
        return _by_path(connection, name), ()
    prefix = sessions.c.session_id.startswith(name, autoescape=True)
    if name and (rows := connection.execute(_candidates().where(prefix)).all()):
        return _chosen(name, rows)
    if tombstones.is_name(connection, name):
        raise NotFound(f"{name} was forgotten; there are others: transcripts list")
    raise NotFound(f"no session is called {name!r}; see: transcripts list")


def _candidates() -> Select[Any]:
    return select(files, sessions.c.title, sessions.c.last_activity_at).join(sessions, sessions.c.file == files.c.id)


def _chosen(name: str, rows: Sequence[Row[Any]]) -> tuple[Row[Any], tuple[str, ...]]:
    if len({row.session_id for row in rows}) > 1:
        raise Ambiguous(name, sorted(f"{row.session_id}  {row.title or ''}" for row in rows))
    best, *others = sorted(rows, key=lambda row: (row.state != "live", -(row.last_activity_at or 0), row.path))
    return best, tuple(row.path for row in others)


def _by_path(connection: Connection, name: str) -> Row[Any]:
    try:
        given = os.path.abspath(os.path.expanduser(name))
        path = os.path.realpath(given)
    except ValueError:  # a NUL or a lone surrogate, which no path has
        raise NotFound(f"no file can be called {name!r}") from None
    row = connection.execute(
        select(files).where(files.c.path.in_([path, given]), files.c.kind != "side").order_by(files.c.version.desc()).limit(1)
    ).one_or_none()
    if row is None and tombstones.is_place(connection, path):
        raise NotFound(f"{path} was forgotten: it is no longer imported, and only the file itself still has it")
    if row is None:
        raise NotFound(f"{path} was never imported; import it with: transcripts sync {shlex.quote(name)}")
    return row


# -- infos ---------------------------------------------------------------------------------------------------------------


def _query() -> Select[Any]:
    agents = (
        select(files.c.source, files.c.project_key, files.c.session_id, func.count().label("agent_count"))
        .where(files.c.kind == "agent", files.c.state != "replaced")
        .group_by(files.c.source, files.c.project_key, files.c.session_id)
        .subquery()
    )
    same_session = and_(
        agents.c.source == files.c.source,
        agents.c.project_key == files.c.project_key,
        agents.c.session_id == files.c.session_id,
    )
    newest = sessions.c.last_activity_at.desc().nulls_last()
    return (
        select(  # in the order of SessionInfo, without the models; then the file
            sessions.c.session_id,
            projects.c.path,
            *files.c["project_key", "source", "path", "state"],
            *sessions.c["title", "title_kind", "tag", "first_prompt", "cwd", "git_branch", "version"],
            *sessions.c["created_at", "last_activity_at", "message_count", "prompt_count", "tool_call_count"],
            *sessions.c["unanswered_count", "missing_parent_count", "compaction_count", "entry_count", "problem_count"],
            func.coalesce(agents.c.agent_count, 0),
            *files.c["version", "kept_size"],
            files.c.kept_size - files.c.imported_size,
            sessions.c.file,
        )
        .join(files, files.c.id == sessions.c.file)
        .join(projects, projects.c.id == sessions.c.project)
        .outerjoin(agents, same_session)
        .order_by(newest, sessions.c.session_id, files.c.path)
    )


_BEFORE_MODELS = [field.name for field in fields(SessionInfo)].index("models")


def _infos(connection: Connection, query: Select[Any]) -> list[SessionInfo]:
    rows = connection.execute(query).all()
    models: dict[int, list[str]] = {}
    used = select(session_models).order_by(session_models.c.model)
    for file, model in connection.execute(
        used if len(rows) > 1 else used.where(session_models.c.file.in_([row.file for row in rows]))
    ):
        models.setdefault(file, []).append(model)
    values = ([*row[:_BEFORE_MODELS], tuple(models.get(row.file, ())), *row[_BEFORE_MODELS:-1]] for row in rows)
    return [SessionInfo(*some) for some in values]
