"""What analytics asks for: prompts, errors, the client's costs, zones and prices; more about usage, calls and compactions.

Why: the views read columns alone, so that they work in any SQL tool. The new columns are filled by the next sync, from the
kept bytes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

PRICED_BY = ["model", "speed", "service_tier"]
ADDED_UP = [
    "input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "web_searches", "is_partial",
]  # fmt: skip


def upgrade() -> None:
    for table in ("usage", "responses"):
        op.add_column(table, sa.Column("thinking_tokens", BIG, nullable=True))
        op.add_column(table, sa.Column("speed", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("is_sidechain", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_responses_timestamp", "responses", ["timestamp", *PRICED_BY, *ADDED_UP], unique=False)
    op.create_index("ix_responses_model", "responses", [*PRICED_BY, "timestamp", *ADDED_UP], unique=False)
    op.add_column("tool_calls", sa.Column("program", sa.Text(), nullable=True))
    op.add_column("tool_calls", sa.Column("path", sa.Text(), nullable=True))
    op.add_column("tool_calls", sa.Column("is_copy", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("tool_calls", sa.Column("duration", BIG, nullable=True))
    op.create_index("ix_tool_calls_duration", "tool_calls", ["is_copy", "name", "duration", "is_error"], unique=False)
    op.create_index(
        "ix_tool_calls_path",
        "tool_calls",
        ["path", "name", "is_copy", "is_error", "called_at"],
        unique=False,
        sqlite_where=sa.text("path IS NOT NULL"),
        postgresql_where=sa.text("path IS NOT NULL"),
    )
    op.add_column("boundaries", sa.Column("post_tokens", BIG, nullable=True))
    op.add_column("boundaries", sa.Column("duration", BIG, nullable=True))
    op.create_table(
        "prompts",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["file"], ["files.id"]),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("ix_prompts_file", "prompts", ["file", "offset"], unique=False)
    op.create_table(
        "errors",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("file", BIG, nullable=False),
        sa.Column("offset", BIG, nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("timestamp", BIG, nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["file"], ["files.id"]),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("ix_errors_file", "errors", ["file", "offset"], unique=False)
    op.create_table(
        "client_costs",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("entry", BIG, nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("has_unknown", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("file"),
    )
    op.create_table(
        "store_summaries",
        sa.Column("file", BIG, autoincrement=False, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["file"], ["files.id"]),
        sa.PrimaryKeyConstraint("file"),
    )
    op.create_table(
        "zone_offsets",
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("starts_at", BIG, autoincrement=False, nullable=False),
        sa.Column("ends_at", BIG, nullable=False),
        sa.Column("utc_offset", BIG, nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("month_starts_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("zone", "starts_at"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "prices",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("speed", sa.Text(), nullable=False),
        sa.Column("starts_at", BIG, autoincrement=False, nullable=False),
        sa.Column("prompt_above", BIG, autoincrement=False, nullable=False),
        sa.Column("ends_at", BIG, nullable=False),
        sa.Column("prompt_up_to", BIG, nullable=False),
        sa.Column("input", sa.Double(), nullable=False),
        sa.Column("output", sa.Double(), nullable=False),
        sa.Column("cache_read", sa.Double(), nullable=False),
        sa.Column("cache_write_5m", sa.Double(), nullable=False),
        sa.Column("cache_write_1h", sa.Double(), nullable=False),
        sa.Column("web_search", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model", "speed", "starts_at", "prompt_above"),
        sqlite_with_rowid=False,
    )
