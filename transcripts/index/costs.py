"""What a response costs, by the prices that the database holds.

Invariants:
- `responses.cost` is what `cost_of` gives, always: it is made with the row, and anew for all rows when prices change.
- A model has the price of its exact name, for the speed and the moment of the response and the length of its prompt; only what
  ran at the standard service tier has one. Without a price the cost is NULL, never nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, FromClause, ScalarSelect, func, select, update

from transcripts.index.prices import KINDS, STANDARD
from transcripts.index.schema import prices, responses


def cost_of(row: FromClause) -> ScalarSelect[Any]:
    """The cost of a row that has the columns of `responses`, in millionths of a dollar."""
    moment = func.coalesce(row.c.timestamp, 0)
    prompt = row.c.input_tokens + row.c.cache_read_tokens + row.c.cache_write_5m_tokens + row.c.cache_write_1h_tokens
    cost = sum((row.c[f"{kind}_tokens"] * prices.c[kind] for kind in KINDS), row.c.web_searches * prices.c.web_search)
    return (
        select(cost)
        .where(
            prices.c.model == row.c.model,
            prices.c.speed == func.coalesce(row.c.speed, STANDARD),
            func.coalesce(row.c.service_tier, STANDARD) == STANDARD,
            prices.c.starts_at <= moment,
            moment < prices.c.ends_at,
            prices.c.prompt_above < prompt,
            prompt <= prices.c.prompt_up_to,
        )
        .correlate(row)
        .scalar_subquery()
    )


def price_all(connection: Connection) -> None:
    """Make the costs of all responses anew. Cost: all of them are written."""
    connection.execute(update(responses).values(cost=cost_of(responses)))
