"""Floor 3: questions. A connection in, frozen dataclasses out.

The modules are loaded when they are first used: no command pays for what others ask.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transcripts.sessions import (
        agents,
        analytics,
        branches,
        catalog,
        chain,
        filters,
        forking,
        mutations,
        ondisk,
        places,
        query,
        recorder,
        recording,
        search,
        storing,
    )

__all__ = [
    "agents",
    "analytics",
    "branches",
    "catalog",
    "chain",
    "filters",
    "forking",
    "mutations",
    "ondisk",
    "places",
    "query",
    "recorder",
    "recording",
    "search",
    "storing",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
