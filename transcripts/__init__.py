"""The embedded database for Claude Code transcripts.

import transcripts

with transcripts.open() as index:
    for session in index.sessions(limit=10):
        print(session.id, session.title)
    chain = index.resume("latest")
"""

from transcripts.api import Index
from transcripts.errors import (
    Ambiguous,
    ChunkDamaged,
    DatabaseBusy,
    DatabaseTooNew,
    DatabaseUnusable,
    FileExists,
    InvalidRequest,
    NotFound,
    Problem,
    QueryRefused,
    TranscriptsError,
)
from transcripts.index.report import ImportReport, Progress
from transcripts.interfaces.defaults import open  # noqa: A004  transcripts.open() is the public name
from transcripts.sessions.catalog import SessionInfo, Transcript
from transcripts.sessions.chain import Chain, ChainEntry
from transcripts.sessions.query import QueryResult

__all__ = [
    "Ambiguous",
    "Chain",
    "ChainEntry",
    "ChunkDamaged",
    "DatabaseBusy",
    "DatabaseTooNew",
    "DatabaseUnusable",
    "FileExists",
    "ImportReport",
    "Index",
    "InvalidRequest",
    "NotFound",
    "Problem",
    "Progress",
    "QueryRefused",
    "QueryResult",
    "SessionInfo",
    "Transcript",
    "TranscriptsError",
    "open",
]
