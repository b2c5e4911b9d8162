"""The search index with titles, summaries and a scope; spans of time.

Why: titles and summaries are searched as columns of their own, filters are answered by the index itself (scope), and a search
by time looks only where it must (search_spans). The index is filled again by the next sync, from the kept bytes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SEARCH = (
    "DROP TABLE search",
    "DROP VIEW search_source",
    """CREATE VIEW search_source AS
    SELECT e.id AS id, search_text(e.id, 0) AS title, search_text(e.id, 1) AS summary, search_text(e.id, 2) AS prompt,
           search_text(e.id, 3) AS reply, search_text(e.id, 4) AS thinking, search_text(e.id, 5) AS tool,
           search_text(e.id, 6) AS result, search_text(e.id, 7) AS scope
    FROM entries AS e
    WHERE e.id <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'search_mark')
      AND e.type IN ('user', 'assistant', 'system', 'summary', 'attachment', 'custom-title', 'ai-title', 'agent-name')
      AND search_text(e.id, 7) IS NOT NULL""",
    """CREATE VIRTUAL TABLE search USING fts5(
        title, summary, prompt, reply, thinking, tool, result, scope,
        content = 'search_source', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2"
    )""",
    "INSERT INTO search (search, rank) VALUES ('hashsize', 33554432)",
    "DELETE FROM meta WHERE key IN ('search_mark', 'search_text_version')",
)


def upgrade() -> None:
    op.create_table(
        "search_spans",
        sa.Column("first", BIG, autoincrement=False, nullable=False),
        sa.Column("last", BIG, nullable=False),
        sa.Column("oldest", BIG, nullable=True),
        sa.Column("newest", BIG, nullable=True),
        sa.PrimaryKeyConstraint("first"),
    )
    op.create_table(
        "search_tools",
        sa.Column("entry", BIG, autoincrement=False, nullable=False),
        sa.Column("names", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("entry"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in SEARCH:
            op.execute(statement)
