"""Going on with a session in the client itself: `resume --exec`, and `continue` for the newest one of this directory.

Nothing is written here: the client is started in the session's directory, and appends to its own file.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

from transcripts.errors import InvalidRequest, NotFound
from transcripts.interfaces.cli.output import command
from transcripts.interfaces.worktrees import worktrees

if TYPE_CHECKING:
    from transcripts.sessions.catalog import SessionInfo

CLIENT = "claude"


def start_client(info: SessionInfo, fork: bool) -> NoReturn:
    """Become the client, resuming a session in its directory.

    Raises NotFound with what to do when the client is not installed or the directory is gone, and InvalidRequest for a session
    whose file the client no longer has.
    """
    program = shutil.which(CLIENT)
    if program is None:
        raise NotFound(f"the client is not installed: there is no `{CLIENT}` on the PATH; install it, or read on without --exec")
    if info.state != "live":
        raise InvalidRequest(f"the client's file of {info.id} is gone; bring it back with: {command('restore', info.path)}")
    if not info.cwd or not os.path.isdir(info.cwd):
        raise NotFound(
            f"the session's directory is gone: {info.cwd or 'none is known'}; make it again, or read on without --exec"
        )
    os.chdir(info.cwd)
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = [CLIENT, "--resume", info.id, *(["--fork-session"] if fork else [])]
    os.execv(program, arguments)  # noqa: S606  no shell: the id is one argument, whatever stands in it


def directories_here() -> list[str]:
    """The current directory, and the other worktrees of its repository."""
    here = os.getcwd()
    found = [here, os.environ.get("PWD", here)]
    found += worktrees(here)
    return list(dict.fromkeys(found))
