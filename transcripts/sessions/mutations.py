"""Small changes of a session: its title, its tag, and its end. A change is a line appended to the transcript, then imported.

Invariants:
- The lines are those that the client and the Agent SDK write and read: `type` first, since both look for it there.
- Deleting takes from the disk only what is kept byte for byte; what could not be kept is left where it lies, and what a link
  leads to belongs to others.
- A title and a tag can be seen: some sign of them is no white space and draws something.
"""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress

from sqlalchemy import select

from transcripts.errors import DatabaseBusy, InvalidRequest, NotFound
from transcripts.files import removal as disk
from transcripts.files import writer
from transcripts.files.discover import scan
from transcripts.index import removal, sync
from transcripts.index.database import Database
from transcripts.index.schema import files
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.places import standing
from transcripts.sessions.recording import import_written

_INVISIBLE = ("Cf", "Co", "Cn")  # format, private use, unassigned
_DRAWN = ("Co", "Cs")  # icons of some fonts; half of a pair, shown as a sign of its own
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that draw nothing: fillers, the empty pattern of Braille


def rename(database: Database, source: str, session: Transcript, title: str) -> None:
    """Give a session a title. Raises InvalidRequest for one of nothing that can be seen."""
    _append(database, source, session, {"type": "custom-title", "customTitle": clean_title(title)})


def tag(database: Database, source: str, session: Transcript, name: str) -> None:
    """Give a session its tag. Raises InvalidRequest for one of nothing that can be seen."""
    cleaned = clean_tag(name)
    if not _is_seen(cleaned):
        raise InvalidRequest("a tag has at least one character that can be seen; untag takes it away")
    _append(database, source, session, {"type": "tag", "tag": cleaned})


def untag(database: Database, source: str, session: Transcript) -> None:
    """Take a session's tag away."""
    _append(database, source, session, {"type": "tag", "tag": ""})


def clean_title(title: str) -> str:
    """A title as it is stored: without the white space around it. Raises InvalidRequest where nothing of it can be seen."""
    if not _is_seen(title):
        raise InvalidRequest("a title has at least one character that can be seen")
    return title.strip()


def clean_tag(name: str) -> str:
    """A tag as it is stored: compatible characters made one (NFKC), invisible ones gone, until nothing more changes."""
    before = None
    while name != before:
        before = name
        normal = unicodedata.normalize("NFKC", name)
        name = "".join(sign for sign in normal if unicodedata.category(sign) not in _INVISIBLE)
    return name.strip()


def _is_seen(text: str) -> bool:
    """Whether a sign of a text draws something: letters, numbers, points and symbols; marks stand on others."""
    kinds = (unicodedata.category(sign) for sign in text if sign not in _BLANK)
    return any(kind[0] in "LNPS" or kind in _DRAWN for kind in kinds)


def delete(database: Database, source: str, session: Transcript) -> list[str]:
    """Remove a session's files, and mark them as deleted in the database, where they stay whole; the paths removed.

    These are the transcript, all of the session's folder, and its sub-agents' transcripts beside it. Raises DatabaseBusy
    before anything is removed, and InvalidRequest for a transcript that is a link.
    """
    path = standing(source, session)
    if os.path.islink(path):
        raise InvalidRequest(f"{path} is a link, and what it leads to is not deleted; delete that, or the link, by hand")
    with writer.locked(path, make=False):
        places = [*session.places, *_old_agents(os.path.dirname(path))]
        sync.sync(database, source, places, remember=False, texts=False)
        found = {file.path for place in places for file in scan(place).files}
        with database.read() as connection:
            rows = connection.execute(
                select(*files.c["id", "path", "size", "mtime_ns", "kept_size"]).where(
                    files.c.source == source,
                    files.c.project_key == session.project_key,
                    files.c.session_id == session.session_id,
                    files.c.state == "live",
                )
            ).all()
        kept = {row.path: row for row in rows if row.size == row.kept_size and row.path in found}
        if path not in kept:
            raise NotFound(f"{path} changes while it is read, or cannot be read; nothing was deleted")
        removed = disk.remove({row.path: (row.size, row.mtime_ns) for row in kept.values()}, path.removesuffix(".jsonl"))
        with suppress(DatabaseBusy):  # then the next sync marks them as gone
            removal.mark_deleted(database, [kept[name].id for name in removed])
    return removed


def _old_agents(project: str) -> list[str]:
    """The transcripts of sub-agents beside those of sessions, where an old client wrote them: whose, only their lines tell."""
    with os.scandir(project) as entries:
        named = (entry for entry in entries if entry.name.startswith("agent-") and entry.name.endswith(".jsonl"))
        return sorted(entry.path for entry in named if entry.is_file(follow_symlinks=False))


def _append(database: Database, source: str, session: Transcript, line: dict[str, str]) -> None:
    path = standing(source, session)
    writer.append(path, [{**line, "sessionId": session.session_id}], make=False)
    import_written(database, source, [path])
