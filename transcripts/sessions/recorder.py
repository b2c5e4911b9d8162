"""Record a list of messages that grows: each time only what is new of it.

Invariants:
- A list that begins and goes on as the last one did has grown: only its new tail is looked at, and hangs on what was recorded
  last. Any other list (compacted: it begins with another message; rewound or edited: it parts before its end) is recorded
  whole: what stands in the transcript is not written again, and moves the parent as it did.
- Recording a list in any steps of growth gives the same lines as recording it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from transcripts.errors import InvalidRequest
from transcripts.index.database import Database
from transcripts.sessions import chain
from transcripts.sessions.catalog import Transcript
from transcripts.sessions.places import known
from transcripts.sessions.recording import Message, Parents, Place, Recorded, Stamps, is_boundary, record

Write = Callable[[Sequence[Message], Parents], Recorded]


class Recorder:
    """Records one session. Not for use by several threads at once; several recorders of one session are safe."""

    def __init__(self, write: Write, parent: str | None = None) -> None:
        self._write = write
        self._parents: Parents = {None: parent}
        self._waiting: list[Message] = []
        self._ends: tuple[str | None, str | None] = (None, None)  # the uuids of the first and the last message taken
        self._taken = 0

    @property
    def parent(self) -> str | None:
        """The uuid of the message that the next one will hang on."""
        return self._parents.get(None)

    def record(self, messages: Sequence[Message]) -> str | None:
        """Record what is new of a list, given whole each time; the uuid of the message that the next one hangs on.

        Each message has a uuid, by which it is known again. Raises what `Index.record` raises; then nothing of the list counts
        as taken, and giving it again is safe. Cost: what is new; for a list that parts from the last one, all of it.
        """
        if not messages:
            return self.parent
        first = _uuid(messages[0])
        taken = self._taken
        has_grown = 0 < taken <= len(messages) and (first, _uuid(messages[taken - 1])) == self._ends
        if has_grown or not taken:
            tail, parents = messages[taken:], self._parents
        else:  # a boundary hangs on nothing, and only names what it would have hung on
            hint = self.parent if is_boundary(messages[0]) else None
            tail, parents = messages, {**self._parents, None: hint}
        for message in tail:
            _uuid(message)
        if tail:
            self._parents, self._waiting = self._write([*self._waiting, *tail], parents)
        self._taken, self._ends = len(messages), (first, _uuid(messages[-1]))
        return self.parent


def recorder(database: Database, source: str, place: Place, stamps: Stamps, fsync: bool, parent: str | None = None) -> Recorder:
    """A recorder of the session at a place, whose first message hangs on `parent`."""
    return Recorder(lambda given, parents: record(database, source, place, given, parents, stamps, fsync), parent)


def adopted(database: Database, source: str, session: Transcript, stamps: Stamps, fsync: bool) -> Recorder:
    """A recorder that goes on from where the session would be resumed."""
    place = known(database, source, session)
    resumed = chain.resume(database.read, session, rules="current", leaf=None, last=1)
    return recorder(database, source, place, stamps, fsync, resumed.leaf)


def _uuid(message: Message) -> str | None:
    """What a message is known by. Lines about the session need none."""
    uuid = message.get("uuid")
    if isinstance(uuid, str) and uuid:
        return uuid
    if message.get("type") in ("user", "assistant", "system", "attachment", "progress"):
        raise InvalidRequest("a message of a growing list has no uuid, by which it would be known again; give each one a uuid")
    return None
