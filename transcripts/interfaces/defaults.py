"""What the environment says: where the client's files lie, and where the database goes.

CLAUDE_CONFIG_DIR names the client's folder (default ~/.claude), TRANSCRIPTS_DB the database (a path or URL), TZ the time zone.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import platformdirs

from transcripts.api import Index
from transcripts.index.report import Progress
from transcripts.interfaces.local_zone import local_zone


def config_folder() -> str:
    """The client's config folder."""
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")


def database() -> str:
    """Where the database lies: a path or URL."""
    return os.environ.get("TRANSCRIPTS_DB") or os.path.join(platformdirs.user_data_dir("transcripts"), "transcripts.db")


def open(  # noqa: A001  transcripts.open() is the public name
    db: str | os.PathLike[str] | None = None, fresh: bool = True, *, progress: Callable[[Progress], None] | None = None
) -> Index:
    """Open the user's database, and take the client's folder as its root when it has none yet.

    `db` is a path or URL instead of the default. Raises what Index.open raises.
    """
    index = Index.open(db if db is not None else database(), fresh, progress=progress, zone=local_zone)
    if fresh and not index.roots() and os.path.isdir(os.path.join(config_folder(), "projects")):
        index.sync([config_folder()], texts=False)
    return index
