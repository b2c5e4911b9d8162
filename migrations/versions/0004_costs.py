"""The cost of a response, kept with it.

Why: to find the price of each response anew took most of the time of a question about tokens. The costs are filled right after
the upgrade, with the prices.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ADDED_UP = [
    "cost", "input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "web_searches", "is_partial",
]  # fmt: skip


def upgrade() -> None:
    op.drop_index("ix_responses_timestamp", table_name="responses")
    op.drop_index("ix_responses_model", table_name="responses")
    op.add_column("responses", sa.Column("cost", sa.Double(), nullable=True))
    op.create_index("ix_responses_timestamp", "responses", ["timestamp", *ADDED_UP], unique=False)
    op.create_index("ix_responses_model", "responses", ["model", "timestamp", *ADDED_UP], unique=False)
