"""Bring a database to the newest revision. Only imported when one has to be made or upgraded: Alembic is slow to load.

The migrations lie in the package `transcripts.migrations`; the configuration is built here, so that no file is needed
beside an installed package.
"""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from transcripts.index import settings
from transcripts.index.database import LOCK_TIMEOUT, take_turn
from transcripts.index.views import create_views, drop_views


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the missing migrations and make the views anew, all or nothing. The caller holds the lock."""
    config = _config()
    with engine.connect().execution_options(immediate=True) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            take_turn(connection, LOCK_TIMEOUT)
        config.attributes["connection"] = connection
        drop_views(connection)
        command.upgrade(config, revision)
        if revision == "head":
            create_views(connection)
            settings.begin(connection)


def revisions() -> list[str]:
    """All revisions this release knows, newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("transcripts.migrations")).replace("%", "%%"))
    return config
