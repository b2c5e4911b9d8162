"""Folders that only their owner can enter."""

from __future__ import annotations

import os


def make_folders(path: str) -> None:
    """Make a folder and those above it that are missing, each closed to others; one that is there stays as it is.

    `os.makedirs` closes only the last of them. Raises OSError.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_folders(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
