"""A table of numbers.

Why: by them a view goes through the days of a month in order, so that it need not sort.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    n = sa.Column("n", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False)
    numbers = op.create_table("numbers", n, sa.PrimaryKeyConstraint("n"))
    op.bulk_insert(numbers, [{"n": number} for number in range(31)])
