"""Transcripts below one folder that others name by keys: a project, a session, and what belongs to the session.

Invariants:
- The files are the truth: an append is on the disk when it returns, and what is read is read from them. Rows, search and
  summaries follow in the same call; where a kill or a busy database kept them from it, the next append to the file, the next
  list of summaries or the next `Store` brings them.
- An entry whose uuid stands in the transcript is not written again. This is decided under the transcript's lock, by what
  stands in the file: so a batch that was written in part can be given again, also by another process.
- An entry comes back as it was given, with all of its fields in their order.
- A torn line costs no other: it is passed over, and the line behind it begins anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection

from transcripts.errors import DatabaseBusy, FileExists, InvalidRequest, NotFound
from transcripts.files import removal as disk
from transcripts.files import writer
from transcripts.files.discover import TranscriptFile, scan
from transcripts.files.entry import exact, load
from transcripts.files.naming import name_of, place_of, subpath_of, text_of
from transcripts.files.reader import ReadAt, blocks, lines
from transcripts.index import folding, fulltext, removal, sync
from transcripts.index.database import Database
from transcripts.index.folding import Fold, Record
from transcripts.index.importer import import_file
from transcripts.index.report import ImportReport
from transcripts.sessions.known import KnownUuids, uuid_in

PATIENCE = 10.0
"""Seconds that an append waits for another writer of the database, before it leaves its lines to the next import."""

_FLUSHING = 8  # transcripts that are waited for at once


class Key(NamedTuple):
    """What names a transcript: with a `subpath` one that belongs to the session, else the session's own."""

    project_key: str
    session_id: str
    subpath: str | None = None


class Listed(NamedTuple):
    """A session, and when its transcript changed last, in milliseconds since 1970 UTC."""

    session_id: str
    mtime: int


class Told(NamedTuple):
    """What a fold tells of a session, and when its transcript changed last."""

    session_id: str
    mtime: int
    data: Record


class Store:
    """The transcripts below a folder. May be used by several threads; several stores of one folder are safe."""

    def __init__(self, database: Database, source: str, root: str) -> None:
        self._database = database
        self._source = source
        self._root = os.path.realpath(root)
        self._known = KnownUuids()
        self._beside = ThreadPoolExecutor(_FLUSHING, "transcripts-flush")  # the disk works while rows are made
        self._import_all([self._root])

    def append(self, key: Key, entries: Sequence[Mapping[str, Any]], fold: Fold) -> None:
        """Write what is new of the entries, and import it: rows, search, and for a session's own transcript the fold.

        Raises InvalidRequest, before anything is written, for what is no entry; NotWritten and TranscriptBusy, after which the
        call may be repeated. Cost: what is given, and once a process a transcript what stands in it.
        """
        given = [(_uuid_of(entry), writer.line_of(entry)) for entry in entries]
        if not given:
            return
        path = self._named(key)
        with writer.locked(path) as transcript:
            known = self._known.take(transcript)
            new = known.new(given)
            if transcript.append(new):
                known.reached(transcript, transcript.size)
            self._known.keep(path, known)
            flushed = self._beside.submit(transcript.flush)
            try:
                self._import(path, fold if key.subpath is None else None)
            finally:
                flushed.result()

    def load(self, key: Key) -> list[Record] | None:
        """All entries of a transcript in the order they were given; None where there are none. Cost: the file."""
        try:
            with _reading(self._path(key)) as (read_at, size):
                return [record for block in blocks(read_at, 0, size) for line in lines(block) for record in exact(line)] or None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def sessions(self, project_key: str) -> list[Listed]:
        """The sessions of a project, in no order. Cost: a stat a session."""
        return [Listed(self._id_of(file.path), _mtime(file)) for file in self._transcripts(project_key)]

    def summaries(self, project_key: str, fold: Fold) -> list[Told]:
        """What the fold tells of each session of a project. Cost: a stat a session, and what was not folded yet."""
        found = self._transcripts(project_key)
        if found:
            self._import_all([os.path.dirname(found[0].path)], sessions_only=True)
        with self._database.read() as connection:
            folded = folding.folded(connection, self._source, [file.path for file in found])
        told = []
        for file in found:
            known = folded.get(file.path)
            data = known.data if known and known.size == file.size else self._folded_on(file, known, fold)
            told.append(Told(self._id_of(file.path), _mtime(file), data))
        return told

    def subkeys(self, project_key: str, session_id: str) -> list[str]:
        """The subpaths of what belongs to a session, in order. Cost: one look at its folder."""
        folder = self._folder(Key(project_key, session_id))
        found = scan(folder).files if os.path.isdir(folder) else []
        agents = (file for file in found if file.kind == "agent" and file.size)
        return sorted(_told(subpath_of, folder, file.name.removesuffix(".jsonl")) for file in agents)

    def delete(self, key: Key) -> None:
        """Remove a transcript, and with a session's own all that belongs to it: files, rows, bytes and search.

        Nothing happens where there is nothing. Raises DatabaseBusy: the files are gone then, and the call may be repeated.
        """
        path, folder = self._path(key), self._folder(key)
        with ExitStack() as held:
            with suppress(NotFound):
                held.enter_context(writer.locked(path, make=False))
            places = [path, f"{path.removesuffix('.jsonl')}.id", *([folder] if key.subpath is None else [])]
            own = [place for place in places if os.path.exists(place) and not os.path.islink(place)]  # no link is followed
            found = [file for place in own for file in scan(place).files]
            disk.remove({file.path: (file.size, file.mtime_ns) for file in found}, folder)
            if key.subpath is None:
                project, session = path.removesuffix(".jsonl").split(os.sep)[-2:]
                removal.remove(self._database, removal.Named(self._source, project, session))
            else:
                removal.remove_file(self._database, self._source, path)

    # -- importing -----------------------------------------------------------------------------------------------------------

    def _import(self, path: str, fold: Fold | None) -> None:
        """Import one transcript that has grown; no folder is looked at."""

        def also(connection: Connection, key: int) -> None:
            if self._database.is_sqlite:
                fulltext.follow(connection)
            if fold is not None:
                with _reading(path) as (read_at, size):
                    folding.fold_on(connection, key, read_at, size, fold)

        with suppress(DatabaseBusy, FileNotFoundError), self._database.patience(PATIENCE):  # the latter: removed by hand just now
            for file in scan(path).files:
                import_file(self._database, self._source, file, ImportReport(), lambda _size: None, also)

    def _folded_on(self, file: TranscriptFile, known: folding.Folded | None, fold: Fold) -> Record:
        with _reading(file.path) as (read_at, size):
            if known is None:  # the database was busy when it was to be imported
                return folding.folded_to(None, read_at, 0, size, fold)[0]
            return folding.fold_on_now(self._database, known.file, read_at, size, fold)

    def _import_all(self, paths: Sequence[str], sessions_only: bool = False) -> None:
        with suppress(DatabaseBusy), self._database.patience(PATIENCE):
            sync.sync(self._database, self._source, paths, remember=False, texts=False, sessions_only=sessions_only)

    # -- places --------------------------------------------------------------------------------------------------------------

    def _folder(self, key: Key) -> str:
        """The folder of what belongs to a session."""
        project, session, subpath = key
        if not isinstance(project, str) or not isinstance(session, str) or not isinstance(subpath, str | None):
            raise InvalidRequest(f"a project, a session and a subpath are texts, not {key!r}")
        if subpath == "":
            raise InvalidRequest("an empty subpath names nothing; leave it out to name the session's own transcript")
        return os.path.join(self._root, name_of(project), name_of(session))

    def _path(self, key: Key) -> str:
        folder = self._folder(key)
        return f"{folder}.jsonl" if key.subpath is None else f"{os.path.join(folder, place_of(key.subpath))}.jsonl"

    def _named(self, key: Key) -> str:
        """The path of a transcript; what its names do not tell is written beside them."""
        path = self._path(key)
        for text, place in (
            (key.project_key, os.path.dirname(self._folder(key))),
            (key.session_id, self._folder(key)),
            (key.subpath, path.removesuffix(".jsonl")),
        ):
            if text is not None and "~" in os.path.basename(place) and not os.path.exists(f"{place}.id"):
                with suppress(FileExists):
                    writer.create(f"{place}.id", [{"id": text}])
        return path

    def _id_of(self, path: str) -> str:
        folder, name = os.path.split(path.removesuffix(".jsonl"))
        return _told(text_of, folder, name)

    def _transcripts(self, project_key: str) -> list[TranscriptFile]:
        """The sessions' own transcripts in a project, those that something stands in."""
        folder = os.path.dirname(self._folder(Key(project_key, "")))
        found = scan(folder, sessions_only=True).files if os.path.isdir(folder) else []
        return [file for file in found if file.size]


# -- entries and files -----------------------------------------------------------------------------------------------------


def _uuid_of(entry: Mapping[str, Any]) -> str | None:
    if not isinstance(entry, Mapping):
        raise InvalidRequest(f"an entry is an object, not {type(entry).__name__}")
    return uuid_in(entry)


@contextmanager
def _reading(path: str) -> Iterator[tuple[ReadAt, int]]:
    """A file to read from, and the size that it has now."""
    with open(path, "rb") as opened:
        descriptor = opened.fileno()
        yield lambda offset, length: os.pread(descriptor, length, offset), os.fstat(descriptor).st_size


def _mtime(file: TranscriptFile) -> int:
    return file.mtime_ns // 1_000_000


def _told(decoded: Callable[[str], str | None], folder: str, name: str) -> str:
    """What a name stands for; one that was cut has it beside it."""
    text = decoded(name)
    if text is None:
        with open(os.path.join(folder, f"{name}.id"), "rb") as opened:
            text = str(load(opened.read())["id"])
    return text
