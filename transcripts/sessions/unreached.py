"""The messages that a chain does not reach, and why."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, text


def count(connection: Connection, file: int, chain: set[int]) -> dict[str, int]:
    """How many messages of a transcript stand on no line of the chain, by the first reason that holds.

    The reasons: `salvaged` (found only behind a damaged line), `no message` (a user or assistant line without one),
    `sidechain`, `pruned` (not among what the last compaction preserves), `before a boundary` (it stands before the last
    compaction), `another branch`. Cost: one pass over the messages of the file.
    """
    rows = connection.execute(
        text("""
            SELECT m.node,
                   CASE WHEN e.standing = 2 THEN 'salvaged'
                        WHEN NOT m.is_mapped THEN 'no message'
                        WHEN m.is_sidechain THEN 'sidechain'
                        WHEN m."offset" < b."offset" AND b.preserved IS NOT NULL THEN 'pruned'
                        WHEN m."offset" < b."offset" THEN 'before a boundary'
                        ELSE 'another branch' END
            FROM messages AS m JOIN entries AS e ON e.id = m.entry
            LEFT JOIN (SELECT "offset", preserved FROM boundaries WHERE file = :file ORDER BY "offset" DESC LIMIT 1) AS b ON true
            WHERE m.file = :file
        """),
        {"file": file},
    )
    return dict(sorted(Counter(reason for node, reason in rows if node not in chain).items()))
