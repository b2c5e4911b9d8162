"""Where a session is written to: the transcript that a name means, or the one that it will have.

Invariants:
- Only a main transcript that lies on this machine is written to, and none of a forgotten session: it would not be imported.
- A new transcript lies where the client would put it: in the folder that is named after the session's directory.
"""

from __future__ import annotations

import os
import shlex

from transcripts.errors import InvalidRequest, NotFound
from transcripts.files.place import project_key
from transcripts.index import sync
from transcripts.index.database import Database
from transcripts.index.removal import Named
from transcripts.index.tombstones import is_forgotten
from transcripts.sessions import catalog
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.recording import Place, Stamps, is_name


def standing(source: str, found: Transcript) -> str:
    """The path of a session that can be written to. Raises InvalidRequest with what to do where it cannot."""
    if found.kind != "main":
        raise InvalidRequest(f"{found.path} is a sub-agent's transcript; name its session")
    if found.source != source:
        raise InvalidRequest(f"{found.path} lies on {found.source}; write to it there")
    if found.state != "live":
        again = f"transcripts restore {shlex.quote(found.path)}"
        raise InvalidRequest(f"the file of {found.session_id} is gone; bring it back with: {again}")
    return found.path


def named(session: Transcript) -> Named:
    """A session as the database names all that belongs to it. Raises InvalidRequest for a sub-agent's transcript."""
    if session.kind != "main" or session.session_id is None:
        raise InvalidRequest(f"{session.path} is a sub-agent's transcript; name its session")
    return Named(session.source, session.project_key, session.session_id)


def known(database: Database, source: str, found: Transcript) -> Place:
    """Where more is recorded of a session that is there. What it said of itself is stamped on what says nothing."""
    path = standing(source, found)
    with database.read() as connection:
        info = catalog.info(connection, found.file)
    return Place(path, info.id, False, Stamps(info.cwd, info.version, info.git_branch))


def new(database: Database, source: str, name: str, cwd: str | None) -> Place:
    """Where a session that is not there yet will be recorded: `name` is a path, or an id, which needs `cwd`.

    Raises InvalidRequest where that is not certain, or the session was forgotten.
    """
    if not is_name(name.replace(os.sep, "")):
        raise InvalidRequest(f"{name!r} is no name for a session's transcript: no file can be called so")
    if os.sep in name or name.endswith(".jsonl"):
        folder, last = os.path.split(os.path.expanduser(name))
        path = os.path.join(os.path.realpath(folder), last)
    elif cwd is None:
        raise NotFound(f"no session is called {name!r}; give its directory (cwd) as well to begin one")
    else:
        path = os.path.join(_projects(database, source, name), project_key(cwd), f"{name}.jsonl")
    stem = os.path.basename(path).removesuffix(".jsonl")
    if not path.endswith(".jsonl") or not stem or stem.startswith("agent-"):
        raise InvalidRequest(f"{path!r} is no name for a session's transcript; it is the session's id and .jsonl")
    with database.read() as connection:
        if is_forgotten(connection, source, os.path.basename(os.path.dirname(path)), stem):
            raise InvalidRequest(f"{stem} was forgotten, so nothing of it is imported; take another id")
    return Place(path, stem, True)


def _projects(database: Database, source: str, name: str) -> str:
    """The one projects folder that is known."""
    roots = sync.known_roots(database, source)
    named = [root for root in roots if os.path.basename(root) == "projects"] or roots
    if len(named) != 1:
        told = ", ".join(named) or "none"
        raise InvalidRequest(f"in which folder to begin {name} is not certain (known: {told}); give the path of its transcript")
    return named[0]
