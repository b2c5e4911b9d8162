"""The embedded database for Claude Code transcripts.

import transcripts

with transcripts.open() as index:
    for session in index.sessions(limit=10):
        print(session.id, session.title)
    chain = index.resume("latest")

Names are loaded when they are first used: `import transcripts` alone loads no database, so the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transcripts.errors import (
    Ambiguous,
    ChunkDamaged,
    DatabaseBusy,
    DatabaseTooNew,
    DatabaseUnusable,
    FileExists,
    InvalidRequest,
    NotFound,
    NotWritten,
    Problem,
    QueryRefused,
    TranscriptBusy,
    TranscriptsError,
)

if TYPE_CHECKING:
    from transcripts.api import Index
    from transcripts.index.removal import Forgotten
    from transcripts.index.report import ImportReport, Progress
    from transcripts.interfaces.defaults import open  # noqa: A004  transcripts.open() is the public name
    from transcripts.sessions.analytics import Stats, ToolUse, Usage
    from transcripts.sessions.catalog import SessionInfo, Transcript
    from transcripts.sessions.chain import Chain, ChainEntry
    from transcripts.sessions.hits import Hit
    from transcripts.sessions.query import QueryResult
    from transcripts.sessions.recorder import Recorder
    from transcripts.sessions.recording import Stamps
    from transcripts.sessions.search import SearchResult

__all__ = [
    "Ambiguous",
    "Chain",
    "ChainEntry",
    "ChunkDamaged",
    "DatabaseBusy",
    "DatabaseTooNew",
    "DatabaseUnusable",
    "FileExists",
    "Forgotten",
    "Hit",
    "ImportReport",
    "Index",
    "InvalidRequest",
    "NotFound",
    "NotWritten",
    "Problem",
    "Progress",
    "QueryRefused",
    "QueryResult",
    "Recorder",
    "SearchResult",
    "SessionInfo",
    "Stamps",
    "Stats",
    "ToolUse",
    "Transcript",
    "TranscriptBusy",
    "TranscriptsError",
    "Usage",
    "open",
]

_LOADED_LATE = {
    "Chain": "transcripts.sessions.chain",
    "ChainEntry": "transcripts.sessions.chain",
    "Forgotten": "transcripts.index.removal",
    "Hit": "transcripts.sessions.hits",
    "ImportReport": "transcripts.index.report",
    "Index": "transcripts.api",
    "Progress": "transcripts.index.report",
    "QueryResult": "transcripts.sessions.query",
    "Recorder": "transcripts.sessions.recorder",
    "SearchResult": "transcripts.sessions.search",
    "SessionInfo": "transcripts.sessions.catalog",
    "Stamps": "transcripts.sessions.recording",
    "Stats": "transcripts.sessions.analytics",
    "ToolUse": "transcripts.sessions.analytics",
    "Transcript": "transcripts.sessions.catalog",
    "Usage": "transcripts.sessions.analytics",
    "open": "transcripts.interfaces.defaults",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module 'transcripts' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LOADED_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOADED_LATE})
