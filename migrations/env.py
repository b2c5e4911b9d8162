"""Alembic's entry. The library hands in its connection; `alembic revision` run by a developer takes a scratch database."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from transcripts.index.schema import metadata


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with create_engine("sqlite://").connect() as scratch:
        _run(scratch)
