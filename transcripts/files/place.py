"""The name of a project's folder, as the client makes it of a directory (FORMAT.md section 1).

Many directories have one name: it is never taken apart again.
"""

from __future__ import annotations

import os
import re
import unicodedata

_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def project_key(directory: str | os.PathLike[str]) -> str:
    """The folder name of a directory: its real path, every character outside [A-Za-z0-9] a hyphen, long ones cut and hashed.

    A character beyond the basic plane counts as two, as it does in the client's language.
    """
    path = unicodedata.normalize("NFC", os.path.realpath(directory))
    name = re.sub("[^A-Za-z0-9]", lambda sign: "-" * _units(sign[0]), path)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_hash(path)}"


def _units(sign: str) -> int:
    return 2 if ord(sign) > 0xFFFF else 1


def _hash(path: str) -> str:
    """The client's hash of a text: 31 times the hash plus the next UTF-16 unit, in 32 bits with a sign, base 36."""
    units = path.encode("utf-16-le", "surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = (found * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    found = abs(found - (1 << 32) if found >= 1 << 31 else found)
    digits = ""
    while found:
        found, digit = divmod(found, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
