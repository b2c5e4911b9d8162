"""The tables as the first release has them.

Why all at once: there is no earlier database. The tables are spelled out here and not taken from schema.py, since a
published migration must go on making what it made; a test compares the two at the newest revision.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SEARCH = (
    """CREATE VIEW search_source AS
    SELECT e.id AS id, search_text(e.id, 0) AS prompt, search_text(e.id, 1) AS reply, search_text(e.id, 2) AS thinking,
           search_text(e.id, 3) AS tool, search_text(e.id, 4) AS result
    FROM entries AS e
    WHERE e.id <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'search_mark')
      AND e.type IN ('user', 'assistant', 'system', 'summary')""",
    """CREATE VIRTUAL TABLE search USING fts5(
        prompt, reply, thinking, tool, result,
        content = 'search_source', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2"
    )""",
    "INSERT INTO search (search, rank) VALUES ('hashsize', 33554432)",
)


def upgrade() -> None:
    op.create_table(
        "chunks",
        sa.Column("id", BIG, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("frame", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "files",
        sa.Column("id", BIG, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=5), nullable=False),
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("device", BIG, nullable=False),
        sa.Column("inode", sa.Text(), nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("mtime_ns", BIG, nullable=False),
        sa.Column("ctime_ns", BIG, nullable=False),
        sa.Column("kept_size", BIG, nullable=False),
        sa.Column("imported_size", BIG, nullable=False),
        sa.Column("imported_lines", BIG, nullable=False),
        sa.Column("head_digest", sa.LargeBinary(), nullable=True),
        sa.Column("tail_digest", sa.LargeBinary(), nullable=True),
        sa.Column("derived_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "path", "version"),
    )
    op.create_index("ix_files_session", "files", ["session_id", "kind"], unique=False)
    op.create_table(
        "forgotten",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("forgotten_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("source", "project_key", "session_id"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "pointers",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("entry", BIG, nullable=True),
        sa.Column("offset", BIG, nullable=True),
        sa.Column("leaf_uuid", sa.Text(), nullable=True),
        sa.Column("explicit", sa.Boolean(), nullable=False),
        sa.Column("last_prompt", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("file"),
    )
    op.create_table(
        "projects",
        sa.Column("id", BIG, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "key", "path"),
    )
    op.create_table(
        "roots",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", "path"),
    )
    op.create_table(
        "tags",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("file"),
    )
    op.create_table(
        "boundaries",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("node", BIG, nullable=False),
        sa.Column("trigger", sa.Text(), nullable=True),
        sa.Column("pre_tokens", BIG, nullable=True),
        sa.Column("logical_parent_uuid", sa.Text(), nullable=True),
        sa.Column("preserved", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("ix_boundaries_file", "boundaries", ["file", "offset"], unique=False)
    op.create_table(
        "entries",
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("standing", sa.Integer(), nullable=False),
        sa.Column("crc", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_entries_file", "entries", ["file", "offset"], unique=False)
    op.create_table(
        "events",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "type", "key"),
    )
    op.create_table(
        "file_chunks",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("offset", BIG, autoincrement=False, nullable=False),
        sa.Column("chunk", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["chunk"],
            ["chunks.id"],
        ),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "offset"),
    )
    op.create_index("ix_file_chunks_chunk", "file_chunks", ["chunk"], unique=False)
    op.create_table(
        "messages",
        sa.Column("node", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("crc", BIG, nullable=False),
        sa.Column("first_offset", BIG, nullable=False),
        sa.Column("parent", BIG, nullable=True),
        sa.Column("source", BIG, nullable=True),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("parent_uuid", sa.Text(), nullable=True),
        sa.Column("type", sa.String(length=10), nullable=False),
        sa.Column("subtype", sa.Text(), nullable=True),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("is_meta", sa.Boolean(), nullable=False),
        sa.Column("is_sidechain", sa.Boolean(), nullable=False),
        sa.Column("is_prompt", sa.Boolean(), nullable=False),
        sa.Column("is_mapped", sa.Boolean(), nullable=False),
        sa.Column("is_glued", sa.Boolean(), nullable=False),
        sa.Column("call_ids", sa.Text(), nullable=True),
        sa.Column("result_ids", sa.Text(), nullable=True),
        sa.Column("thinking_only", sa.Boolean(), nullable=False),
        sa.Column("blank", sa.Boolean(), nullable=False),
        sa.Column("empty_content", sa.Boolean(), nullable=False),
        sa.Column("input_tokens", BIG, nullable=True),
        sa.Column("output_tokens", BIG, nullable=True),
        sa.Column("cache_read_tokens", BIG, nullable=True),
        sa.Column("cache_write_tokens", BIG, nullable=True),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_index("ix_messages_file", "messages", ["file", "offset"], unique=False)
    op.create_index("ix_messages_parent", "messages", ["parent"], unique=False)
    op.create_index("ix_messages_parent_uuid", "messages", ["parent_uuid", "file"], unique=False)
    op.create_index(
        "ix_messages_response",
        "messages",
        ["message_id", "file"],
        unique=False,
        sqlite_where=sa.text("message_id IS NOT NULL"),
        postgresql_where=sa.text("message_id IS NOT NULL"),
    )
    op.create_index(
        "ix_messages_source",
        "messages",
        ["source"],
        unique=False,
        sqlite_where=sa.text("source IS NOT NULL"),
        postgresql_where=sa.text("source IS NOT NULL"),
    )
    op.create_table(
        "nodes",
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("progress", BIG, nullable=True),
        sa.Column("bridge", BIG, nullable=True),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_nodes_uuid", "nodes", ["uuid", "file"], unique=True)
    op.create_table(
        "problems",
        sa.Column("id", BIG, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("length", BIG, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_problems_file", "problems", ["file", "offset"], unique=False)
    op.create_table(
        "responses",
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("owner", BIG, nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("input_tokens", BIG, nullable=False),
        sa.Column("output_tokens", BIG, nullable=False),
        sa.Column("cache_read_tokens", BIG, nullable=False),
        sa.Column("cache_write_5m_tokens", BIG, nullable=False),
        sa.Column("cache_write_1h_tokens", BIG, nullable=False),
        sa.Column("web_searches", BIG, nullable=False),
        sa.Column("service_tier", sa.Text(), nullable=True),
        sa.Column("is_partial", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("response"),
    )
    op.create_table(
        "session_models",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "model"),
    )
    op.create_table(
        "sessions",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("project", BIG, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("title_kind", sa.String(length=12), nullable=True),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("first_prompt", sa.Text(), nullable=True),
        sa.Column("cwd", sa.Text(), nullable=True),
        sa.Column("git_branch", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("created_at", BIG, nullable=True),
        sa.Column("last_activity_at", BIG, nullable=True),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("prompt_count", sa.Integer(), nullable=False),
        sa.Column("tool_call_count", sa.Integer(), nullable=False),
        sa.Column("unanswered_count", sa.Integer(), nullable=False),
        sa.Column("missing_parent_count", sa.Integer(), nullable=False),
        sa.Column("compaction_count", sa.Integer(), nullable=False),
        sa.Column("entry_count", sa.Integer(), nullable=False),
        sa.Column("problem_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.PrimaryKeyConstraint("file"),
    )
    op.create_index("ix_sessions_activity", "sessions", ["last_activity_at"], unique=False)
    op.create_index("ix_sessions_session", "sessions", ["session_id"], unique=False)
    op.create_table(
        "snips",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("node", BIG, nullable=False),
        sa.Column("removed", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("ix_snips_file", "snips", ["file"], unique=False)
    op.create_table(
        "snapshots",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("type", sa.String(length=24), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "type", "message_id", "path"),
    )
    op.create_table(
        "summaries",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("leaf_uuid", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("ix_summaries_leaf_uuid", "summaries", ["leaf_uuid"], unique=False)
    op.create_table(
        "titles",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "kind"),
    )
    op.create_table(
        "tool_calls",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("tool_use_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("call_entry", BIG, nullable=True),
        sa.Column("call_node", BIG, nullable=True),
        sa.Column("called_at", BIG, nullable=True),
        sa.Column("result_entry", BIG, nullable=True),
        sa.Column("result_node", BIG, nullable=True),
        sa.Column("answered_at", BIG, nullable=True),
        sa.Column("is_error", sa.Boolean(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "tool_use_id"),
    )
    op.create_index("ix_tool_calls_tool_use", "tool_calls", ["tool_use_id"], unique=False)
    op.create_index("ix_tool_calls_name", "tool_calls", ["name"], unique=False)
    op.create_table(
        "usage",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("input_tokens", BIG, nullable=False),
        sa.Column("output_tokens", BIG, nullable=False),
        sa.Column("cache_read_tokens", BIG, nullable=False),
        sa.Column("cache_write_5m_tokens", BIG, nullable=False),
        sa.Column("cache_write_1h_tokens", BIG, nullable=False),
        sa.Column("web_searches", BIG, nullable=False),
        sa.Column("service_tier", sa.Text(), nullable=True),
        sa.Column("is_partial", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.id"],
        ),
        sa.PrimaryKeyConstraint("file", "message_id", "request_id"),
    )
    op.create_index("ix_usage_response", "usage", ["response"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for statement in SEARCH:
            op.execute(statement)
