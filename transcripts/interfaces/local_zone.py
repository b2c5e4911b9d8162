"""The time zone of the user: the one that the environment names (TZ), else that of the system.

Its offsets are asked of the C library, as all times on the command line are, so that both agree on every day.
"""

from __future__ import annotations

import os
import time

from transcripts.index.zones import Zone, probed

_SYSTEM = "/etc/localtime"
_FOLDER = "/zoneinfo/"


def local_zone() -> Zone:
    """The zone, with the name it is known by. Cost: milliseconds."""
    return probed(_name(), lambda at: time.localtime(at).tm_gmtoff)


def _name() -> str:
    if named := os.environ.get("TZ", "").removeprefix(":"):
        return named.rpartition(_FOLDER)[2]
    target = os.path.realpath(_SYSTEM)
    return target.rpartition(_FOLDER)[2] if _FOLDER in target else "/".join(time.tzname)
