"""The worktrees of a repository, as git tells them."""

from __future__ import annotations

import subprocess

_SECONDS = 5


def worktrees(directory: str) -> list[str]:
    """The paths of all worktrees of the repository that a directory lies in; none where there is no repository or no git."""
    try:
        told = subprocess.run(
            ["git", "worktree", "list", "--porcelain"],  # noqa: S607  git is wherever the user has it
            cwd=directory, capture_output=True, text=True, timeout=_SECONDS, check=True,
        ).stdout  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return [line.removeprefix("worktree ") for line in told.splitlines() if line.startswith("worktree ")]
