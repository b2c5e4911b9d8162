"""What is counted of a file once its lines are in: its session's row, and the responses over all files.

Invariants:
- A session's row is a function of the rows of its transcript and of summaries anywhere, not of the order of imports; only
  first prompt, directory, branch and client version are carried along, in file order.
- A response is the row of `usage` with the most output tokens (ties: input and cache tokens, earliest time, smallest
  session id); its owner is the file with the earliest line of it. So totals do not change when files are forked, copied,
  rewritten or vanish.
- Lines of a file with one message id and the id of one request are a reply. A relay may name no request and give one id to
  many replies: then a line begins another reply when it tells of a prompt of another size than the line before, and a prompt
  was typed in between, or any user line was (results of tools stand between the lines of one reply, too) and this is not the
  first line with a stop reason: the end of a reply may correct what its beginning guessed. A size of nothing is none told.
- A tool call is one when its id and its time are the same; all rows of it but one are copies: not the one that was answered
  first (ties: smallest session id, path).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from transcripts.index.bulk import fetch, insert_rows, run, scalar, upsert_rows
from transcripts.index.costs import cost_of
from transcripts.index.counts import Calls, counted, raised
from transcripts.index.rows import Rows
from transcripts.index.schema import (
    files,
    messages,
    nodes,
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

# made once: putting such a query together takes longer than answering it
_FILE: BindParameter[int] = bindparam("file")
_ABOUT = select(*files.c["source", "project_key", "session_id"]).where(files.c.id == _FILE)
_BEFORE = select(sessions).where(sessions.c.file == _FILE)
_TAG = select(func.nullif(tags.c.tag, "")).where(tags.c.file == _FILE)
_GIVEN = select(titles.c.kind, titles.c.title).where(titles.c.file == _FILE)
_SUMMARY = (
    select(summaries.c.summary)
    .join(nodes, and_(nodes.c.uuid == summaries.c.leaf_uuid, nodes.c.file == _FILE))
    .join(messages, messages.c.node == nodes.c.id)
    .join(files, files.c.id == summaries.c.file)
    .order_by(messages.c.offset.desc(), files.c.path.desc(), summaries.c.offset.desc())
    .limit(1)
)
_NAMED = (
    select(nodes.c.file)
    .join(summaries, summaries.c.leaf_uuid == nodes.c.uuid)
    .join(sessions, sessions.c.file == nodes.c.file)
    .where(summaries.c.file == _FILE)
)
_PROJECT = select(projects.c.id).where(
    projects.c.source == bindparam("source"), projects.c.key == bindparam("key"), projects.c.path == bindparam("path")
)
_MODELS = select(session_models.c.model).where(session_models.c.file == _FILE)
_TOLD = select(usage.c.response).where(usage.c.file == _FILE)
_TOLD_OF = _TOLD.where(usage.c.message_id.in_(bindparam("some", expanding=True)))


def update_session(
    connection: Connection, file: int, rows: Rows | None = None, count: bool = True, calls: Calls | None = None
) -> None:
    """Make the session row of a main transcript anew; `rows` are the lines that have just been added.

    Without `count` the numbers stay as they are: for a file of which more lines follow at once. With `calls` (how those of
    `rows` stood before) they are raised by what was added. Cost else: one pass over the index of the file's messages.
    """
    ((source, key, session_id),) = fetch(connection, _ABOUT, file=file)
    before = connection.execute(_BEFORE, {"file": file}).one_or_none()
    carried = {
        "first_prompt": (before and before.first_prompt) or (rows and rows.first_prompt) or None,
        "cwd": (before and before.cwd) or (rows and rows.cwd) or None,
        "git_branch": (rows and rows.git_branch) or (before and before.git_branch) or None,
        "version": (rows and rows.version) or (before and before.version) or None,
    }
    values: dict[str, Any] = {
        "file": file,
        "project": _project(connection, source, key, carried["cwd"]),
        "session_id": session_id,
        **carried,
        **_title(connection, file, carried["first_prompt"]),
        "tag": scalar(connection, _TAG, file=file),
    }
    if before is not None and not count:
        values = dict(before._mapping) | values
    elif before is not None and rows is not None and calls is not None:
        values = raised(connection, file, before, rows, calls) | values
    else:
        values = counted(connection, file) | values
    upsert_rows(connection, sessions, [tuple(values[column.name] for column in sessions.columns)])
    if before is not None and before.project != values["project"]:
        _drop_if_unused(connection, before.project)
    models = {message.model for message in rows.messages if message.model} if rows else set()
    models.discard("<synthetic>")  # the client's own words are no model's
    new = sorted(models - {model for (model,) in fetch(connection, _MODELS, file=file)}) if models else []
    insert_rows(connection, session_models, [(file, model) for model in new])


def remove_session(connection: Connection, file: int) -> None:
    """Delete the session row of a transcript, and its project when no other session is left in it."""
    project = connection.scalar(select(sessions.c.project).where(sessions.c.file == file))
    connection.execute(delete(sessions).where(sessions.c.file == file))
    if project is not None:
        _drop_if_unused(connection, project)


def named_sessions(connection: Connection, file: int) -> set[int]:
    """The sessions whose title hangs on a summary in this file."""
    return {found for (found,) in fetch(connection, _NAMED, file=file)} - {file}


def update_responses(connection: Connection, keys: Iterable[str]) -> None:
    """Choose the row of each response anew."""
    if wanted := sorted(set(keys)):
        run(connection, _UNCHOSEN, keys=wanted)
        run(connection, _CHOSEN, keys=wanted)


def update_copies(connection: Connection, calls: Iterable[str]) -> None:
    """Mark, of the calls with these ids, all but one of those that stand in several files."""
    wanted = sorted(set(calls))
    doubtful = [call for (call,) in fetch(connection, _DOUBTFUL, keys=wanted)] if wanted else []
    for file, call, is_copy, place in fetch(connection, _PLACES, keys=doubtful) if doubtful else ():
        if is_copy != (place > 1):
            run(connection, _MARK, of=file, call=call, mark=place > 1)


def calls_of(connection: Connection, file: int) -> list[str]:
    """The ids of the calls that a file holds."""
    return list(connection.scalars(_CALLS, {"file": file}))


def responses_of(connection: Connection, file: int, message_ids: list[str] | None = None) -> list[str]:
    """The keys of the responses that a file tells of, or of those among them with these message ids."""
    if message_ids is None:
        return [key for (key,) in fetch(connection, _TOLD, file=file)]
    return [key for (key,) in fetch(connection, _TOLD_OF, file=file, some=message_ids)]


# -- parts -----------------------------------------------------------------------------------------------------------------


def _chosen() -> Select[Any]:
    """The rows of the responses with these `keys`."""
    cached = usage.c.input_tokens + usage.c.cache_read_tokens + usage.c.cache_write_5m_tokens + usage.c.cache_write_1h_tokens
    by_time = (usage.c.timestamp.is_(None), usage.c.timestamp, files.c.session_id, files.c.path, files.c.version, files.c.source)
    most = (usage.c.output_tokens.desc(), cached.desc(), *by_time, usage.c.entry)  # a file may hold lines twice
    ranked = (
        select(
            usage,
            func.row_number().over(partition_by=usage.c.response, order_by=most).label("rank"),
            func.first_value(usage.c.file).over(partition_by=usage.c.response, order_by=by_time).label("owner"),
            func.min(usage.c.timestamp).over(partition_by=usage.c.response).label("earliest"),
        )
        .join(files, files.c.id == usage.c.file)
        .where(usage.c.response.in_(bindparam("keys", expanding=True)))
        .subquery()
    )
    one = select(*_columns(ranked)).where(ranked.c.rank == 1).subquery()
    return select(*one.c, cost_of(one))


def _columns(ranked: Subquery) -> Iterator[ColumnElement[Any]]:
    """Those of `responses`, without the cost."""
    for column in responses.columns:
        if column.name != "cost":
            yield ranked.c.earliest.label("timestamp") if column.name == "timestamp" else ranked.c[column.name]


_CALLS = select(tool_calls.c.tool_use_id).where(tool_calls.c.file == _FILE)
_OF_THESE = tool_calls.c.tool_use_id.in_(bindparam("keys", expanding=True))
_DOUBTFUL = (
    select(tool_calls.c.tool_use_id)
    .where(_OF_THESE)
    .group_by(tool_calls.c.tool_use_id)
    .having(or_(func.count() > 1, func.count(case((tool_calls.c.is_copy, 1))) > 0))
)
_PLACES = (
    select(
        *tool_calls.c["file", "tool_use_id", "is_copy"],
        func.row_number()
        .over(
            partition_by=(tool_calls.c.tool_use_id, tool_calls.c.called_at),
            order_by=(
                tool_calls.c.answered_at.is_(None),
                tool_calls.c.answered_at,
                *files.c["session_id", "path", "version", "source"],
            ),
        )
        .label("place"),
    )
    .join(files, files.c.id == tool_calls.c.file)
    .where(_OF_THESE)
)
_MARK = (
    update(tool_calls)
    .where(tool_calls.c.file == bindparam("of"), tool_calls.c.tool_use_id == bindparam("call"))
    .values(is_copy=bindparam("mark"))
)
_UNCHOSEN = delete(responses).where(responses.c.response.in_(bindparam("keys", expanding=True)))
_CHOSEN = insert(responses).from_select([column.name for column in responses.columns], _chosen())


def _project(connection: Connection, source: str, key: str, cwd: str | None) -> int:
    path = cwd or key
    found = scalar(connection, _PROJECT, source=source, key=key, path=path)
    if found is None:
        new = insert(projects).returning(projects.c.id)
        found = connection.execute(new, {"source": source, "key": key, "path": path}).scalar_one()
    return int(found)


def _drop_if_unused(connection: Connection, project: int) -> None:
    connection.execute(delete(projects).where(projects.c.id == project, ~exists().where(sessions.c.project == project)))


def _title(connection: Connection, file: int, first_prompt: str | None) -> dict[str, str | None]:
    """custom title > ai title > summary that names one of the file's messages > first prompt; an empty one is none."""
    given: dict[str, str] = dict(fetch(connection, _GIVEN, file=file))
    for kind in ("custom-title", "ai-title"):
        if given.get(kind):
            return {"title": given[kind], "title_kind": kind}
    summary = scalar(connection, _SUMMARY, file=file)
    if summary:
        return {"title": summary, "title_kind": "summary"}
    return {"title": first_prompt, "title_kind": "prompt" if first_prompt else None}
