"""What someone else's function tells of a transcript, kept beside it: it is given the entries in order, each once.

Invariants:
- What is told is that of the first `size` bytes; whoever wrote the rest, in whatever steps, it is folded in next.
- What it tells is not looked at, and kept as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from transcripts.files.entry import exact
from transcripts.files.reader import ReadAt, blocks, lines
from transcripts.index.bulk import upsert_rows
from transcripts.index.database import Database
from transcripts.index.schema import files, store_summaries

Record = dict[str, Any]
Fold = Callable[[Record | None, list[Record]], Record]
"""What is told of a transcript, or None, and the entries behind that -> what is told of it with them."""

_SLICE = 500
_FOLDED = select(*store_summaries.c["size", "data"]).where(store_summaries.c.file == bindparam("file"))


class Folded(NamedTuple):
    """What is told of a transcript up to a size; `file` is the key of its file."""

    file: int
    size: int
    data: Record


def folded(connection: Connection, source: str, paths: Sequence[str]) -> dict[str, Folded]:
    """What is told of the live transcripts among these paths; of one that was never folded nothing, up to 0."""
    found: dict[str, Folded] = {}
    for at in range(0, len(paths), _SLICE):
        rows = connection.execute(
            select(*files.c["path", "id"], *store_summaries.c["size", "data"])
            .outerjoin(store_summaries, store_summaries.c.file == files.c.id)
            .where(files.c.source == source, files.c.path.in_(paths[at : at + _SLICE]), files.c.state == "live")
        )
        found.update((path, Folded(file, size or 0, json.loads(data or "{}"))) for path, file, size, data in rows)
    return found


def fold_on(connection: Connection, file: int, read_at: ReadAt, end: int, fold: Fold) -> Record:
    """Fold in the lines of a transcript that have not been, up to `end`; what is told then. Cost: these lines."""
    row = connection.execute(_FOLDED, {"file": file}).one_or_none()
    reached, data = (row.size, json.loads(row.data)) if row is not None and row.size <= end else (0, None)
    data, reached = folded_to(data, read_at, reached, end, fold)
    upsert_rows(connection, store_summaries, [(file, reached, json.dumps(data))])
    return data


def fold_on_now(database: Database, file: int, read_at: ReadAt, end: int, fold: Fold) -> Record:
    """The same in a transaction of its own. Raises DatabaseBusy."""
    with database.write() as connection:
        return fold_on(connection, file, read_at, end, fold)


def folded_to(data: Record | None, read_at: ReadAt, start: int, end: int, fold: Fold) -> tuple[Record, int]:
    """What is told with the whole lines between two offsets, and where they end."""
    some: list[Record] = []
    for block in blocks(read_at, start, end):
        for line in lines(block):
            if line.complete:
                some += exact(line)
                start = line.offset + len(line.data) + 1
    return (fold(data, some) if some or data is None else data), start
