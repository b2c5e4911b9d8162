"""Garbage collection waits while rows become objects.

A long chain is some hundred thousand objects, none of which refers to another one made later: there are no circles to look
for. Python looks all the same, time and again while they become more, which takes as long as making them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_waits() -> Iterator[None]:
    """Within this block nothing is looked for, in any thread. For work that ends soon: it holds for the whole process."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
