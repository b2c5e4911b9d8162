"""What was forgotten: sessions whose files are passed over, wherever they still lie.

Invariants:
- A file is known by its project's folder and its session's id; a sub-agent's that lies beside the transcripts, and whose
  session only its lines tell, by its own name.
- An id that is a uuid is no other session's, so its files are passed over in any folder: a project's folder may be renamed.
  What is met so is noted by its folder, too. Only what stands stays: a session of that id in a project in which it was not
  forgotten, wherever that is moved to.
"""

from __future__ import annotations

import re
import time

from sqlalchemy import Connection, bindparam, exists, select

from transcripts.files.discover import TranscriptFile, placed
from transcripts.index.bulk import fetch, upsert_rows
from transcripts.index.schema import files, forgotten

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BURIED = select(forgotten.c.project_key).where(
    forgotten.c.source == bindparam("source"), forgotten.c.session_id == bindparam("name")
)

Name = tuple[str, str]
"""A project's folder, and the session's id or a sub-agent's file beside the transcripts."""


class Buried(Exception):
    """A file of a forgotten session is about to be imported."""


def name_of(file: TranscriptFile) -> Name:
    """What a file is known by among what was forgotten."""
    return file.project_key, file.session_id or file.name.removesuffix(".jsonl")


def names(connection: Connection, source: str) -> set[Name]:
    """All that was forgotten of a machine, by the folders that are known to hold it."""
    rows = connection.execute(select(*forgotten.c["project_key", "session_id"]).where(forgotten.c.source == source))
    return {(row.project_key, row.session_id) for row in rows}


def is_forgotten(connection: Connection, source: str, project_key: str, name: str) -> bool:
    """Whether a session, or a sub-agent's file beside it, was forgotten: there, or by its uuid."""
    keys = {key for (key,) in fetch(connection, _BURIED, source=source, name=name)}
    if project_key in keys or not keys:
        return bool(keys)
    same = (files.c.source == source, files.c.project_key == project_key, files.c.session_id == name)
    return bool(_UUID.fullmatch(name)) and not connection.scalar(select(exists().where(*same)))


def is_name(connection: Connection, name: str) -> bool:
    """Whether a session that was called so was forgotten, of any machine."""
    return bool(connection.scalar(select(exists().where(forgotten.c.session_id == name))))


def is_place(connection: Connection, path: str) -> bool:
    """Whether the file at a path is passed over, of any machine."""
    _kind, key, session_id, _agent_id, below = placed(path)
    name = session_id or below.removesuffix(".jsonl")
    sources = connection.scalars(select(forgotten.c.source).where(forgotten.c.session_id == name).distinct()).all()
    return any(is_forgotten(connection, source, key, name) for source in sources)


def bury(connection: Connection, source: str, project_key: str, name: str) -> None:
    """Note that a session, or a sub-agent's file beside it, is forgotten from now on."""
    upsert_rows(connection, forgotten, [(source, project_key, name, time.time_ns() // 1_000_000)])
