"""What is counted of a file once its lines are in: its session's row, and the responses over all files.

Invariants:
- A session's row is a function of the rows of its transcript and of summaries anywhere, not of the order of imports; only
  first prompt, directory, branch and client version are carried along, in file order.
- A response is the row of `usage` with the most output tokens (ties: input and cache tokens, earliest time, smallest
  session id); its owner is the file with the earliest line of it. So totals do not change when files are forked, copied,
  rewritten or vanish.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, and_, case, delete, exists, func, insert, select

from transcripts.index.bulk import insert_rows, upsert_rows
from transcripts.index.rows import Rows
from transcripts.index.schema import (
    boundaries,
    entries,
    files,
    messages,
    nodes,
    problems,
    projects,
    responses,
    session_models,
    sessions,
    summaries,
    tags,
    titles,
    tool_calls,
    usage,
)

_SLICE = 400


def update_session(connection: Connection, file: int, rows: Rows | None = None, count: bool = True) -> None:
    """Make the session row of a main transcript anew; `rows` are the lines that have just been added.

    Without `count` the numbers stay as they are: for a file of which more lines follow at once. Cost with it: one pass over
    the index of the file's messages.
    """
    about = connection.execute(select(files).where(files.c.id == file)).one()
    before = connection.execute(select(sessions).where(sessions.c.file == file)).one_or_none()
    carried = {
        "first_prompt": (before and before.first_prompt) or (rows and rows.first_prompt) or None,
        "cwd": (before and before.cwd) or (rows and rows.cwd) or None,
        "git_branch": (rows and rows.git_branch) or (before and before.git_branch) or None,
        "version": (rows and rows.version) or (before and before.version) or None,
    }
    values: dict[str, Any] = {
        "file": file,
        "project": _project(connection, about.source, about.project_key, carried["cwd"]),
        "session_id": about.session_id,
        **carried,
        **_title(connection, file, carried["first_prompt"]),
        "tag": connection.scalar(select(func.nullif(tags.c.tag, "")).where(tags.c.file == file)),
    }
    values = (_counts(connection, file) if count or before is None else dict(before._mapping)) | values
    upsert_rows(connection, sessions, [tuple(values[column.name] for column in sessions.columns)])
    if before is not None and before.project != values["project"]:
        _drop_if_unused(connection, before.project)
    models = {message.model for message in rows.messages if message.model} if rows else set()
    known = set(connection.scalars(select(session_models.c.model).where(session_models.c.file == file)))
    new = sorted(models - known - {"<synthetic>"})  # the client's own words are no model's
    insert_rows(connection, session_models, [(file, model) for model in new])


def remove_session(connection: Connection, file: int) -> None:
    """Delete the session row of a transcript, and its project when no other session is left in it."""
    project = connection.scalar(select(sessions.c.project).where(sessions.c.file == file))
    connection.execute(delete(sessions).where(sessions.c.file == file))
    if project is not None:
        _drop_if_unused(connection, project)


def named_sessions(connection: Connection, file: int) -> set[int]:
    """The sessions whose title hangs on a summary in this file."""
    named = select(nodes.c.file).join(summaries, summaries.c.leaf_uuid == nodes.c.uuid).where(summaries.c.file == file)
    return set(connection.scalars(named.join(sessions, sessions.c.file == nodes.c.file))) - {file}


def update_responses(connection: Connection, keys: Iterable[str]) -> None:
    """Choose the row of each response anew."""
    wanted = sorted(set(keys))
    for at in range(0, len(wanted), _SLICE):
        some = wanted[at : at + _SLICE]
        connection.execute(delete(responses).where(responses.c.response.in_(some)))
        connection.execute(insert(responses).from_select([column.name for column in responses.columns], _chosen(some)))


def responses_of(connection: Connection, file: int, message_ids: list[str] | None = None) -> list[str]:
    """The keys of the responses that a file tells of, or of those among them with these message ids."""
    told = select(usage.c.response).where(usage.c.file == file)
    if message_ids is None:
        return list(connection.scalars(told))
    slices = (message_ids[at : at + _SLICE] for at in range(0, len(message_ids), _SLICE))
    return [key for some in slices for key in connection.scalars(told.where(usage.c.message_id.in_(some)))]


# -- parts -----------------------------------------------------------------------------------------------------------------


def _chosen(keys: list[str]) -> Select[Any]:
    cached = usage.c.input_tokens + usage.c.cache_read_tokens + usage.c.cache_write_5m_tokens + usage.c.cache_write_1h_tokens
    by_time = (usage.c.timestamp.is_(None), usage.c.timestamp, files.c.session_id, files.c.path, files.c.version)
    most = (usage.c.output_tokens.desc(), cached.desc(), *by_time)
    ranked = (
        select(
            usage,
            func.row_number().over(partition_by=usage.c.response, order_by=most).label("rank"),
            func.first_value(usage.c.file).over(partition_by=usage.c.response, order_by=by_time).label("owner"),
            func.min(usage.c.timestamp).over(partition_by=usage.c.response).label("earliest"),
        )
        .join(files, files.c.id == usage.c.file)
        .where(usage.c.response.in_(keys))
        .subquery()
    )
    columns = [ranked.c.earliest if column.name == "timestamp" else ranked.c[column.name] for column in responses.columns]
    return select(*columns).where(ranked.c.rank == 1)


def _project(connection: Connection, source: str, key: str, cwd: str | None) -> int:
    path = cwd or key
    same = and_(projects.c.source == source, projects.c.key == key, projects.c.path == path)
    found = connection.scalar(select(projects.c.id).where(same))
    if found is None:
        new = insert(projects).returning(projects.c.id)
        found = connection.execute(new, {"source": source, "key": key, "path": path}).scalar_one()
    return int(found)


def _drop_if_unused(connection: Connection, project: int) -> None:
    connection.execute(delete(projects).where(projects.c.id == project, ~exists().where(sessions.c.project == project)))


def _title(connection: Connection, file: int, first_prompt: str | None) -> dict[str, str | None]:
    """custom title > ai title > summary that names one of the file's messages > first prompt; an empty one is none."""
    given = dict(connection.execute(select(titles.c.kind, titles.c.title).where(titles.c.file == file)).all())
    for kind in ("custom-title", "ai-title"):
        if given.get(kind):
            return {"title": given[kind], "title_kind": kind}
    leaf = (
        select(summaries.c.summary)
        .join(nodes, and_(nodes.c.uuid == summaries.c.leaf_uuid, nodes.c.file == file))
        .join(messages, messages.c.node == nodes.c.id)
        .join(files, files.c.id == summaries.c.file)
        .order_by(messages.c.offset.desc(), files.c.path.desc(), summaries.c.offset.desc())
        .limit(1)
    )
    summary = connection.scalar(leaf)
    if summary:
        return {"title": summary, "title_kind": "summary"}
    return {"title": first_prompt, "title_kind": "prompt" if first_prompt else None}


def _counts(connection: Connection, file: int) -> dict[str, int | None]:
    main = messages.c.is_sidechain.is_(False)
    spoken = and_(main, messages.c.type.in_(("user", "assistant")))
    counted = connection.execute(
        select(
            func.min(case((spoken, messages.c.timestamp))).label("created_at"),
            func.max(case((spoken, messages.c.timestamp))).label("last_activity_at"),
            func.count(case((spoken, 1))).label("message_count"),
            func.count(case((messages.c.is_prompt, 1))).label("prompt_count"),
        ).where(messages.c.file == file)
    ).one()
    return {**counted._mapping, **_other_counts(connection, file)}


def _other_counts(connection: Connection, file: int) -> dict[str, int]:
    parent = messages.alias()
    missing = and_(
        messages.c.file == file,
        messages.c.parent.is_not(None),
        ~exists().where(parent.c.node == messages.c.parent),
    )
    answered = tool_calls.c.result_entry.is_not(None)
    called = and_(tool_calls.c.file == file, tool_calls.c.call_entry.is_not(None))
    counts: dict[str, Select[Any]] = {
        "tool_call_count": select(func.count()).select_from(tool_calls).where(called),
        "unanswered_count": select(func.count()).select_from(tool_calls).where(called, ~answered),
        "missing_parent_count": select(func.count()).select_from(messages).where(missing),
        "compaction_count": select(func.count(boundaries.c.node.distinct())).where(boundaries.c.file == file),
        "entry_count": select(func.count()).select_from(entries).where(entries.c.file == file, entries.c.type.is_not(None)),
        "problem_count": select(func.count()).select_from(problems).where(problems.c.file == file),
    }
    return {name: connection.scalar(query) or 0 for name, query in counts.items()}
