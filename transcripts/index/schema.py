"""The tables: what is kept, and what is derived from it.

Invariants:
- Kept tables hold what cannot be made again once a file is gone: `files`, `chunks`, `file_chunks`, `forgotten`, `roots`,
  `meta`. Everything else is derived from the chunks, and may be dropped and made again (`DERIVED`).
- `store_summaries` is what the Agent SDK made of a session's first bytes, for the store of its sessions: see folding.py.
- `zone_offsets` and `prices` are what is known of the user's time zone and of prices: see settings.py. The cost of a response
  is kept with it, and made anew when prices change.
- Sizes and offsets are bytes, times are integer milliseconds since 1970 UTC unless a name says `_ns`.
- A uuid is unique within a version of a file, never globally.
- Entry and node keys are opaque: they change when a file is derived again. Order within a file is (file, offset).
- Texts in columns hold neither NUL nor lone surrogates (`CleanText`), so both databases take them; the bytes keep them.

The side files of a session (agent meta files, big tool results, a workflow's journal) are rows of `files` with kind `side`:
they have versions, vanish and are exported by the same rules as a transcript, only without lines.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from transcripts.files.entry import clean

DERIVED_VERSION = 4
"""Raised whenever an import would make other rows of the same bytes; older files are then derived again, one by one."""

TEXT_VERSION = 2
"""Raised whenever `text.py` would make another text of the same record; the search index is then filled again."""

Id = BigInteger().with_variant(Integer, "sqlite")
Millis = BigInteger().with_variant(Integer, "sqlite")


class CleanText(TypeDecorator[str]):
    """Text without NUL and lone surrogates, which no database stores."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


metadata = MetaData()


def _key(name: str = "id") -> Column[int]:
    return Column(name, Id, primary_key=True, autoincrement=False)


def _file() -> Column[Any]:
    return Column("file", Id, ForeignKey("files.id"), nullable=False)


# -- kept ----------------------------------------------------------------------------------------------------------------

files = Table(
    "files",
    metadata,
    Column("id", Id, primary_key=True),
    Column("source", CleanText, nullable=False),  # the machine, where several import into one database
    Column("path", CleanText, nullable=False),
    Column("version", Integer, nullable=False),  # 1, 2, ... of this path; the highest is the newest
    Column("kind", String(5), nullable=False),  # main, agent, side
    Column("project_key", CleanText, nullable=False),
    Column("session_id", CleanText),  # NULL: an old agent file of which no line has been read yet
    Column("agent_id", CleanText),
    Column("name", CleanText, nullable=False),
    Column("state", String(8), nullable=False),  # live, gone, replaced, deleted
    Column("device", Id, nullable=False),
    Column("inode", CleanText, nullable=False),  # text: some file systems use all 64 bits, unsigned
    Column("size", Id, nullable=False),  # as last seen on disk
    Column("mtime_ns", Id, nullable=False),
    Column("ctime_ns", Id, nullable=False),
    Column("kept_size", Id, nullable=False),  # bytes in chunks
    Column("imported_size", Id, nullable=False),  # bytes whose rows are final; a provisional last line begins here
    Column("imported_lines", Id, nullable=False),  # complete lines before imported_size
    Column("head_digest", LargeBinary),  # of the first and the last kept bytes, see importer.py
    Column("tail_digest", LargeBinary),
    Column("derived_version", Integer, nullable=False),
    UniqueConstraint("source", "path", "version"),
    Index("ix_files_session", "session_id", "kind"),
)

chunks = Table(
    "chunks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),  # of the bytes before compression
    Column("length", Integer, nullable=False),
    Column("frame", LargeBinary, nullable=False),  # zstd
)

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("offset", Id, primary_key=True, autoincrement=False),
    Column("chunk", Id, ForeignKey("chunks.id"), nullable=False),
    Index("ix_file_chunks_chunk", "chunk"),
)

forgotten = Table(
    "forgotten",
    metadata,
    Column("source", CleanText, primary_key=True),
    Column("project_key", CleanText, primary_key=True),
    Column("session_id", CleanText, primary_key=True),
    Column("forgotten_at", Millis, nullable=False),
)

roots = Table(
    "roots",
    metadata,
    Column("source", CleanText, primary_key=True),
    Column("path", CleanText, primary_key=True),
)

store_summaries = Table(
    "store_summaries",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("size", Id, nullable=False),  # bytes of the transcript that are folded in
    Column("data", CleanText, nullable=False),  # JSON, as the Agent SDK's fold gave it
)

meta = Table("meta", metadata, Column("key", String(40), primary_key=True), Column("value", CleanText, nullable=False))

# -- derived -------------------------------------------------------------------------------------------------------------

entries = Table(
    "entries",
    metadata,
    _key(),
    _file(),
    Column("line", Integer, nullable=False),  # 1, 2, ...
    Column("offset", Id, nullable=False),
    Column("length", Integer, nullable=False),
    Column("type", CleanText),  # NULL: a line without a record, or a record without a type
    Column("timestamp", Millis),
    Column("standing", Integer, nullable=False),  # 0 alone on its line, 1 with more behind it, 2 salvaged
    Column("crc", Id, nullable=False),  # crc32 of the record's bytes
    Index("ix_entries_file", "file", "offset"),
)

nodes = Table(
    "nodes",
    metadata,
    _key(),
    _file(),
    Column("uuid", CleanText, nullable=False),
    Column("progress", Id),  # the entry, when the uuid is that of a progress line
    Column("bridge", Id),  # the parent of a progress line; NULL with progress: it hangs on nothing
    Index("ix_nodes_uuid", "uuid", "file", unique=True),
)

messages = Table(
    "messages",
    metadata,
    _key("node"),
    _file(),
    Column("entry", Id, nullable=False),  # the line that stands now
    Column("offset", Id, nullable=False),
    Column("length", Integer, nullable=False),
    Column("crc", Id, nullable=False),
    Column("first_offset", Id, nullable=False),  # of the first line with this uuid
    Column("parent", Id),  # a node, past progress lines; NULL: hangs on nothing
    Column("source", Id),  # the node that sourceToolAssistantUUID names, where it is not the parent
    Column("uuid", CleanText, nullable=False),
    Column("parent_uuid", CleanText),  # as written
    Column("type", String(10), nullable=False),  # user, assistant, system, attachment
    Column("subtype", CleanText),
    Column("timestamp", Millis),
    Column("message_id", CleanText),
    Column("request_id", CleanText),
    Column("model", CleanText),
    Column("agent_id", CleanText),
    Column("is_meta", Boolean, nullable=False),
    Column("is_sidechain", Boolean, nullable=False),
    Column("is_prompt", Boolean, nullable=False),  # what a person typed
    Column("is_mapped", Boolean, nullable=False),  # the current rules see it (FORMAT.md 3.1)
    Column("is_glued", Boolean, nullable=False),  # more stands behind it on its line: the classic rules lose it
    Column("call_ids", CleanText),  # of its tool_use blocks, a JSON list; NULL: none
    Column("result_ids", CleanText),  # of the calls its tool_result blocks answer
    Column("thinking_only", Boolean, nullable=False),
    Column("blank", Boolean, nullable=False),  # an assistant line of nothing but white space
    Column("empty_content", Boolean, nullable=False),
    Column("input_tokens", Id),  # as this line has them; of a response in several lines the last is right
    Column("output_tokens", Id),
    Column("cache_read_tokens", Id),
    Column("cache_write_tokens", Id),
    Index("ix_messages_file", "file", "offset"),
    Index("ix_messages_parent", "parent"),
    Index("ix_messages_parent_uuid", "parent_uuid", "file"),
)
# Partial on PostgreSQL too, by the migrations: a word of it here would load its dialect each time the command line starts.
Index("ix_messages_response", messages.c.message_id, messages.c.file, sqlite_where=messages.c.message_id.is_not(None))
Index("ix_messages_source", messages.c.source, sqlite_where=messages.c.source.is_not(None))

summaries = Table(
    "summaries",
    metadata,
    _key("entry"),
    _file(),
    Column("offset", Id, nullable=False),
    Column("leaf_uuid", CleanText),
    Column("summary", CleanText, nullable=False),
    Index("ix_summaries_leaf_uuid", "leaf_uuid"),
)

titles = Table(
    "titles",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("kind", String(12), primary_key=True),  # custom-title, ai-title, agent-name; command: the first one given
    Column("entry", Id, nullable=False),
    Column("title", CleanText, nullable=False),  # '' clears
)

tags = Table(
    "tags",
    metadata,
    _key("file"),
    Column("entry", Id, nullable=False),
    Column("tag", CleanText, nullable=False),  # '' clears
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("type", String(24), primary_key=True),  # file-history-snapshot, file-history-delta, attribution-snapshot, ...
    Column("message_id", CleanText, primary_key=True),  # a message's uuid, in no id space of messages
    Column("path", CleanText, primary_key=True),  # of a delta, else ''
    Column("entry", Id, nullable=False),  # the latest
)

pointers = Table(
    "pointers",
    metadata,
    _key("file"),
    Column("entry", Id),  # the last last-prompt with a leafUuid
    Column("offset", Id),
    Column("leaf_uuid", CleanText),
    Column("explicit", Boolean, nullable=False),
    Column("last_prompt", CleanText),
)

boundaries = Table(
    "boundaries",
    metadata,
    _key("entry"),
    _file(),
    Column("offset", Id, nullable=False),
    Column("node", Id, nullable=False),
    Column("trigger", CleanText),
    Column("pre_tokens", Id),
    Column("logical_parent_uuid", CleanText),
    Column("preserved", CleanText),  # preservedMessages and preservedSegment as JSON; NULL: a plain boundary
    Column("post_tokens", Id),
    Column("duration", Id),  # milliseconds
    Index("ix_boundaries_file", "file", "offset"),
)

snips = Table(
    "snips",
    metadata,
    _key("entry"),
    _file(),
    Column("node", Id, nullable=False),
    Column("removed", CleanText, nullable=False),  # uuids, a JSON list
    Index("ix_snips_file", "file"),
)

events = Table(
    "events",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("type", CleanText, primary_key=True),  # mode, permission-mode, pr-link, cost-state, ... and unknown ones
    Column("key", CleanText, primary_key=True),  # a link's address, else ''
    Column("entry", Id, nullable=False),  # the latest
)

tool_calls = Table(
    "tool_calls",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("tool_use_id", CleanText, primary_key=True),
    Column("name", CleanText),
    Column("target", CleanText),  # the file, command, pattern or address of the input: its first 1,000 characters
    Column("call_entry", Id),  # NULL: a result without its call
    Column("call_node", Id),
    Column("called_at", Millis),
    Column("result_entry", Id),  # NULL: unanswered
    Column("result_node", Id),
    Column("answered_at", Millis),
    Column("is_error", Boolean),
    Column("agent_id", CleanText),  # of the sub-agent that answered, as the result tells
    Column("program", CleanText),  # the first word of a shell's command
    Column("path", CleanText),  # the file that a tool for files was given
    Column("is_copy", Boolean, nullable=False),  # another file holds the same call: forks copy lines (aggregate.py)
    Column("duration", Id),  # milliseconds from the call to its result
    Index("ix_tool_calls_name", "name"),
    Index("ix_tool_calls_duration", "is_copy", "name", "duration", "is_error"),
    Index("ix_tool_calls_tool_use", "tool_use_id"),
)
Index(
    "ix_tool_calls_path", *tool_calls.c["path", "name", "is_copy", "is_error", "called_at"],
    sqlite_where=tool_calls.c.path.is_not(None),
)  # fmt: skip

usage = Table(
    "usage",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("message_id", CleanText, primary_key=True),
    Column("request_id", CleanText, primary_key=True),  # '' when there is none; '@...': rows.MARK
    Column("response", CleanText, nullable=False),  # the key over all files, see responses.py
    Column("entry", Id, nullable=False),  # the response's last line in this file
    Column("model", CleanText),
    Column("timestamp", Millis),  # of its first line
    Column("input_tokens", Id, nullable=False),
    Column("output_tokens", Id, nullable=False),
    Column("cache_read_tokens", Id, nullable=False),
    Column("cache_write_5m_tokens", Id, nullable=False),
    Column("cache_write_1h_tokens", Id, nullable=False),
    Column("web_searches", Id, nullable=False),
    Column("service_tier", CleanText),
    Column("is_partial", Boolean, nullable=False),  # no line with a stop reason
    Column("thinking_tokens", Id),  # among the output tokens; NULL: not told
    Column("speed", CleanText),
    Column("is_sidechain", Boolean, nullable=False),  # a sub-agent's
    Index("ix_usage_response", "response"),
)

_ADDED_UP = (
    "cost", "input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "web_searches", "is_partial",
)  # fmt: skip

responses = Table(
    "responses",
    metadata,
    Column("response", CleanText, primary_key=True),
    Column("owner", Id, ForeignKey("files.id"), nullable=False),  # the file with the earliest line of it
    Column("model", CleanText),
    Column("timestamp", Millis),
    Column("input_tokens", Id, nullable=False),
    Column("output_tokens", Id, nullable=False),
    Column("cache_read_tokens", Id, nullable=False),
    Column("cache_write_5m_tokens", Id, nullable=False),
    Column("cache_write_1h_tokens", Id, nullable=False),
    Column("web_searches", Id, nullable=False),
    Column("service_tier", CleanText),
    Column("is_partial", Boolean, nullable=False),
    Column("thinking_tokens", Id),
    Column("speed", CleanText),
    Column("is_sidechain", Boolean, nullable=False),
    Column("cost", Double),  # in millionths of a dollar, by the table prices; NULL: without a price (costs.py)
    # Both hold all that is added up, so that a total reads them alone and in order.
    Index("ix_responses_timestamp", "timestamp", *_ADDED_UP),
    Index("ix_responses_model", "model", "timestamp", *_ADDED_UP),
)

prompts = Table(
    "prompts",
    metadata,
    _key("entry"),
    _file(),
    Column("offset", Id, nullable=False),
    Column("uuid", CleanText, nullable=False),
    Column("timestamp", Millis),
    Column("text", CleanText, nullable=False),  # what was typed: its first 1,000 characters, white space folded
    Index("ix_prompts_file", "file", "offset"),
)

errors = Table(
    "errors",
    metadata,
    _key("entry"),
    _file(),
    Column("offset", Id, nullable=False),
    Column("kind", String(12), nullable=False),  # api: the model gave none; retry: it was asked again; interruption: by the user
    Column("timestamp", Millis),
    Column("detail", CleanText),  # the first 300 characters of what is told
    Index("ix_errors_file", "file", "offset"),
)

client_costs = Table(
    "client_costs",
    metadata,
    _key("file"),
    Column("entry", Id, nullable=False),  # the last cost-state
    Column("cost_usd", Double, nullable=False),
    Column("has_unknown", Boolean, nullable=False),  # a model of which the client had no price
)

problems = Table(
    "problems",
    metadata,
    Column("id", Id, primary_key=True),
    _file(),
    Column("offset", Id, nullable=False),
    Column("length", Id, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("excerpt", CleanText, nullable=False),
    Index("ix_problems_file", "file", "offset"),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Id, primary_key=True),
    Column("source", CleanText, nullable=False),
    Column("key", CleanText, nullable=False),  # the folder's name, many-to-one: never decoded
    Column("path", CleanText, nullable=False),  # the first cwd of a session's lines, else the key
    UniqueConstraint("source", "key", "path"),
)

sessions = Table(
    "sessions",
    metadata,
    _key("file"),  # the main transcript's newest version
    Column("project", Id, ForeignKey("projects.id"), nullable=False),
    Column("session_id", CleanText, nullable=False),
    Column("title", CleanText),
    Column("title_kind", String(12)),  # custom-title, ai-title, summary, prompt
    Column("tag", CleanText),
    Column("first_prompt", CleanText),
    Column("cwd", CleanText),  # the first
    Column("git_branch", CleanText),  # the last
    Column("version", CleanText),  # of the client, the last
    Column("created_at", Millis),  # oldest and newest message
    Column("last_activity_at", Millis),
    Column("message_count", Integer, nullable=False),  # user and assistant lines, without sidechains
    Column("prompt_count", Integer, nullable=False),
    Column("tool_call_count", Integer, nullable=False),
    Column("unanswered_count", Integer, nullable=False),
    Column("missing_parent_count", Integer, nullable=False),
    Column("compaction_count", Integer, nullable=False),
    Column("entry_count", Integer, nullable=False),
    Column("problem_count", Integer, nullable=False),
    Index("ix_sessions_session", "session_id"),
    Index("ix_sessions_activity", "last_activity_at"),
)

session_models = Table(
    "session_models",
    metadata,
    Column("file", Id, ForeignKey("files.id"), primary_key=True, autoincrement=False),
    Column("model", CleanText, primary_key=True),
)

DERIVED: tuple[Table, ...] = (
    entries, nodes, messages, summaries, titles, tags, snapshots, pointers, boundaries, snips,
    events, tool_calls, usage, problems, sessions, session_models, prompts, errors, client_costs,
)  # fmt: skip
"""The derived tables whose rows belong to a file (column `file`). `responses` and `projects` are derived too, and do not."""

# -- told by the user's side -------------------------------------------------------------------------------------------------

zone_offsets = Table(
    "zone_offsets",
    metadata,
    Column("zone", CleanText, primary_key=True),
    Column("starts_at", Millis, primary_key=True, autoincrement=False),
    Column("ends_at", Millis, nullable=False),  # the first moment that is no longer in it
    Column("utc_offset", Millis, nullable=False),  # milliseconds that local time is ahead of UTC
    Column("month", String(7), nullable=False),  # 2026-03
    Column("month_starts_at", Millis, nullable=False),  # of its first day, in milliseconds of local time
    sqlite_with_rowid=False,
)

numbers = Table("numbers", metadata, _key("n"))
"""0 to 30: by them views go through the days of a month in order."""

prices = Table(
    "prices",
    metadata,
    Column("model", CleanText, primary_key=True),
    Column("speed", CleanText, primary_key=True),
    Column("starts_at", Millis, primary_key=True, autoincrement=False),
    Column("prompt_above", Id, primary_key=True, autoincrement=False),  # for prompts of more tokens than this ...
    Column("ends_at", Millis, nullable=False),
    Column("prompt_up_to", Id, nullable=False),  # ... and at most so many, what is read from and written to the cache counted
    Column("input", Double, nullable=False),  # USD for a million tokens
    Column("output", Double, nullable=False),
    Column("cache_read", Double, nullable=False),
    Column("cache_write_5m", Double, nullable=False),
    Column("cache_write_1h", Double, nullable=False),
    Column("web_search", Double, nullable=False),  # USD for a million, too
    sqlite_with_rowid=False,
)

# -- SQLite only -----------------------------------------------------------------------------------------------------------

SEARCH_COLUMNS = ("title", "summary", "prompt", "reply", "thinking", "tool", "result", "scope")

search_spans = Table(
    "search_spans",
    metadata,
    _key("first"),  # from this entry on ...
    Column("last", Id, nullable=False),  # ... to this one ...
    Column("oldest", Millis),  # ... no indexed entry has an earlier time ...
    Column("newest", Millis),  # ... or a later one: a search by time looks into few spans
)

search_tools = Table(
    "search_tools",
    metadata,
    _key("entry"),  # of a tool's result, in the index
    Column("names", CleanText, nullable=False),  # of the tools that it answers, as known when it was indexed: a JSON list
)

SEARCH_SQL = (
    # The text of each indexed entry as `search_text()` makes it from the kept bytes: what the index must agree with. What
    # has no scope has no text.
    """
    CREATE VIEW search_source AS
    SELECT e.id AS id, search_text(e.id, 0) AS title, search_text(e.id, 1) AS summary, search_text(e.id, 2) AS prompt,
           search_text(e.id, 3) AS reply, search_text(e.id, 4) AS thinking, search_text(e.id, 5) AS tool,
           search_text(e.id, 6) AS result, search_text(e.id, 7) AS scope
    FROM entries AS e
    WHERE e.id <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'search_mark')
      AND e.type IN ('user', 'assistant', 'system', 'summary', 'attachment', 'custom-title', 'ai-title', 'agent-name')
      AND search_text(e.id, 7) IS NOT NULL
    """,
    """
    CREATE VIRTUAL TABLE search USING fts5(
        title, summary, prompt, reply, thinking, tool, result, scope,
        content = 'search_source', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2"
    )
    """,
    # What FTS5 gathers in memory before it writes: 32 MB take 0.6 of the time of its default and make a smaller index.
    "INSERT INTO search (search, rank) VALUES ('hashsize', 33554432)",
)
