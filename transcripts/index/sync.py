"""A scan against the files table: what is new, changed, moved or gone, and the import of it.

Invariants:
- A file whose size, times and inode are as they were is not opened.
- Only what lies below the paths that were scanned is marked as gone, and only when the system says that it is not there;
  below a folder that could not be read, or a root that is missing, nothing is marked.
- A file that vanished and one of the same name that came are one file that moved, when the new one begins with the old
  one's bytes.
- What was forgotten stays so: a file of a forgotten session is passed over.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, insert, or_, select, update

from transcripts.errors import ChunkDamaged, Problem
from transcripts.files.discover import Scan, TranscriptFile, scan
from transcripts.index import fulltext, prepare, tombstones
from transcripts.index.aggregate import calls_of, named_sessions, responses_of, update_copies, update_responses, update_session
from transcripts.index.apart import Apart
from transcripts.index.bulk import fetch
from transcripts.index.database import Database
from transcripts.index.frames import digest
from transcripts.index.importer import Begun, begin_file, derive_file, import_file
from transcripts.index.memory import Memory
from transcripts.index.report import ImportReport, Meter, Progress
from transcripts.index.schema import DERIVED_VERSION, files, roots
from transcripts.index.versions import EDGE, clear

_AHEAD = 8 * 1024 * 1024  # bytes that are on their way to each process
_MOST = 64 * 1024 * 1024  # bytes that are imported in one transaction: some seconds, which other writers wait
_SHARE = 16  # of a large import at most such a part is lost when it is stopped
_LEAST = 32 * 1024  # bytes that are imported in the time which each file takes
_SLICE = 500
_FEW = 50  # files up to which their rows are fetched by path, not all rows of the database


def sync(
    database: Database,
    source: str,
    paths: Iterable[str | os.PathLike[str]] | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    remember: bool = True,
    texts: bool = True,
    sessions_only: bool = False,
    memory: Memory | None = None,
) -> ImportReport:
    """Import what is new below the paths, or below all roots that were synced before.

    A path is a config folder, a projects folder, a project, a session's folder or a file; unless `remember` is off, it is a
    root from then on. Without `texts` the search index is left for the next sync; with `sessions_only` main transcripts are
    looked at and nothing else. A `memory` is asked whether the same scan left nothing to do. Raises DatabaseBusy; faults in
    files are in the report. Cost with nothing to do: the scan, and without a memory the rows of the files.
    """
    report = ImportReport()
    scans = [scan(path, sessions_only) for path in (paths if paths is not None else known_roots(database, source))]
    report.scanned = sum(len(found.files) for found in scans)
    report.problems += [problem for found in scans for problem in found.problems]
    version = database.version() if memory is not None else None
    looked_at = ("settled", source, sessions_only, texts, remember, tuple(found.root for found in scans))
    if memory is not None and memory.recall(looked_at, version) == scans:
        return report
    with database.read() as connection:
        plan = _plan(connection, source, scans, sessions_only)
        new_roots = _new_roots(connection, source, scans) if remember and paths is not None else []
    if plan.moved or plan.vanished or new_roots:
        with database.write() as connection:
            _mark(connection, source, plan, report)
            _remember(connection, source, new_roots)
    todo = sorted(plan.changed, key=lambda found: (found.mtime_ns, found.path))
    advance = Meter(progress, sum(found.size for found in todo) + sum(row.kept_size for row in plan.outdated))
    _derive(database, plan.outdated, report, advance)
    with Apart(sum(found.size - plan.kept.get(found.path, 0) for found in todo)) as apart:
        _import_all(database, source, todo, plan.kept, report, advance, apart)
    if report.rewritten or report.moved:  # a replaced version whose rows were not all made, or were taken away by a move
        with database.read() as connection:
            unfinished = (files.c.state == "replaced") & (files.c.derived_version != DERIVED_VERSION)
            rows = connection.execute(select(files).where(files.c.source == source, unfinished).order_by(files.c.id)).all()
        _derive(database, rows, report, advance)
    if texts and database.is_sqlite:
        report.indexed = fulltext.drain(database, progress=progress)
    if memory is not None and not any(plan):
        memory.keep(looked_at, version, scans)
    return report


def _import_all(
    database: Database,
    source: str,
    todo: list[TranscriptFile],
    kept: dict[str, int],
    report: ImportReport,
    advance: Meter,
    apart: Apart,
) -> None:
    """Import the files in order, several in one transaction: it touches the same pages of the indexes for all of them."""
    weights = {found.path: max(found.size - kept.get(found.path, 0), _LEAST) for found in todo}
    most = min(max(prepare.BATCH_BYTES, sum(weights.values()) // _SHARE), _MOST)
    size = 0
    with ExitStack() as transaction:
        for found, begun in _begun(todo, kept, weights, apart):
            weight = weights[found.path]
            if size + weight > most:
                transaction.close()
                size = 0
            if not size and weight <= most and len(todo) > 1:
                transaction.enter_context(database.together())
            size += weight
            advance.path = found.path
            _import(database, source, found, report, advance, apart, begun)


def _begun(
    todo: list[TranscriptFile], kept: dict[str, int], weights: dict[str, int], apart: Apart
) -> Iterator[tuple[TranscriptFile, Begun | None]]:
    """The files in order, each new one with its first batch on its way for a while already."""
    ahead: deque[tuple[TranscriptFile, Begun | None]] = deque()
    size = 0
    for found in todo:
        ahead.append((found, None if found.path in kept else begin_file(found, apart)))
        size += min(weights[found.path], prepare.BATCH_BYTES)
        while ahead and size > _AHEAD * apart.processes:
            size -= min(weights[ahead[0][0].path], prepare.BATCH_BYTES)
            yield ahead.popleft()
    yield from ahead


def _import(
    database: Database,
    source: str,
    found: TranscriptFile,
    report: ImportReport,
    advance: Meter,
    apart: Apart,
    begun: Begun | None,
) -> None:
    try:
        import_file(database, source, found, report, advance, apart=apart, begun=begun)
    except FileNotFoundError:
        pass  # gone since the scan: the next one will mark it
    except OSError as error:
        report.problems.append(Problem(found.path, f"cannot be read ({error.strerror})"))


def _derive(database: Database, rows: Sequence[Row[Any]], report: ImportReport, advance: Meter) -> None:
    with Apart(sum(row.kept_size for row in rows)) as apart:
        for row in rows:
            advance.path = row.path
            try:
                derive_file(database, row.id, report, advance, apart)
            except ChunkDamaged as error:
                report.problems.append(Problem(row.path, str(error)))


def known_roots(database: Database, source: str) -> list[str]:
    """The paths that were synced, in order."""
    with database.read() as connection:
        return list(connection.scalars(select(roots.c.path).where(roots.c.source == source).order_by(roots.c.path)))


# -- the plan ----------------------------------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    changed: list[TranscriptFile]
    kept: dict[str, int]  # of those that are known: the bytes that need not be imported again
    moved: list[tuple[Row[Any], TranscriptFile]]
    vanished: list[Row[Any]]
    outdated: list[Row[Any]]  # rows of an older derived version whose file is not here to be read


def _plan(connection: Connection, source: str, scans: list[Scan], sessions_only: bool) -> _Plan:
    found = {file.path: file for one in scans for file in one.files}
    newest: dict[str, Row[Any]] = {}
    outdated: list[Row[Any]] = []
    same, rows = _compared(connection, source, scans, found, sessions_only)
    for row in rows:
        if row.state == "replaced":
            if row.derived_version != DERIVED_VERSION:
                outdated.append(row)
        else:
            newest[row.path] = row
            if row.path not in found and row.derived_version != DERIVED_VERSION:
                outdated.append(row)
    passed_over = tombstones.names(connection, source)
    changed = [file for path, file in found.items() if path not in same and tombstones.name_of(file) not in passed_over]
    missing = [row for path, row in newest.items() if path not in found and _is_gone(row, scans)]
    moved = _moves(missing, [file for file in changed if file.path not in newest])
    gone_elsewhere = {row.id for row, _file in moved}
    vanished = [row for row in missing if row.state == "live" and row.id not in gone_elsewhere]
    known = [(newest[file.path], file) for file in changed if file.path in newest] + moved
    kept = {file.path: _standing(row, file) for row, file in known}
    return _Plan(changed, kept, moved, vanished, outdated)


def _standing(row: Row[Any], file: TranscriptFile) -> int:
    """How many bytes of a known file are imported already, as far as its row tells."""
    stands = row.derived_version == DERIVED_VERSION and row.project_key == file.project_key
    return min(row.kept_size, file.size) if stands else 0


_AS_IT_WAS = files.c[
    "path", "state", "kind", "project_key", "name", "size", "kept_size", "mtime_ns", "ctime_ns", "inode", "derived_version",
    "id",
]  # fmt: skip
_ALL = select(*_AS_IT_WAS).where(files.c.source == bindparam("source"))
_ALL_MAIN = _ALL.where(files.c.kind == "main")


def _as_it_is(file: TranscriptFile) -> tuple[Any, ...]:
    """What _AS_IT_WAS holds, between path and id, of a file of which nothing is to be imported."""
    times = (file.mtime_ns, file.ctime_ns)
    return ("live", file.kind, file.project_key, file.name, file.size, file.size, *times, str(file.inode), DERIVED_VERSION)


def _compared(
    connection: Connection, source: str, scans: list[Scan], found: dict[str, TranscriptFile], sessions_only: bool
) -> tuple[set[str], list[Row[Any]]]:
    """Of the files that lie below what was scanned: the paths of those that are as they were, the rows of others, versions in
    order. Only the columns that are compared are read of all."""
    same: set[str] = set()
    other: list[int] = []
    for row in _rows_below(connection, source, scans, found, _ALL_MAIN if sessions_only else _ALL):
        path = row[0]
        if path in found:
            if row[1:-1] == _as_it_is(found[path]):
                same.add(path)
            else:
                other.append(row[-1])
        elif any(_lies_below(path, one.root) for one in scans):
            other.append(row[-1])
    return same, _rows(connection, other)


def _rows_below(
    connection: Connection, source: str, scans: list[Scan], found: dict[str, TranscriptFile], rows: Select[Any]
) -> Sequence[Sequence[Any]]:
    """At least those of these rows that lie below what was scanned."""
    if len(found) > _FEW:
        return fetch(connection, rows, source=source)
    below: list[ColumnElement[bool]] = [files.c.path.in_([*found, *(one.root for one in scans)])]
    folders = [one.root for one in scans if one.root not in found]
    if connection.dialect.name == "sqlite":  # a range, so that the index on (source, path) is used: "/" + 1 is "0"
        below += [(files.c.path > root + "/") & (files.c.path < root + "0") for root in folders]
    else:  # where most orders of text pass over the slashes
        below += [files.c.path.startswith(root + "/", autoescape=True) for root in folders]
    return connection.execute(rows.where(or_(*below)), {"source": source}).all()


def _rows(connection: Connection, keys: list[int]) -> list[Row[Any]]:
    slices = (keys[at : at + _SLICE] for at in range(0, len(keys), _SLICE))
    rows = [row for some in slices for row in connection.execute(select(files).where(files.c.id.in_(some)))]
    return sorted(rows, key=lambda row: (row.path, row.version))


def _lies_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _is_gone(row: Row[Any], scans: list[Scan]) -> bool:
    """Whether a file that no scan found is really not there; what could not be looked at is not gone."""
    if any(_lies_below(row.path, folder) for one in scans for folder in one.unread if folder != row.path):
        return False
    if not os.path.isdir(os.path.dirname(row.path)) and all(row.path == one.root for one in scans):
        return False
    try:
        os.lstat(row.path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _moves(missing: list[Row[Any]], new: list[TranscriptFile]) -> list[tuple[Row[Any], TranscriptFile]]:
    places: dict[tuple[str, str | None, str], list[Row[Any]]] = {}
    for row in missing:
        places.setdefault(_same_name(row), []).append(row)
    moved = []
    for file in new:
        for row in places.get(_same_name(file), []):
            if 0 < row.kept_size <= file.size and _begins_alike(row, file):
                moved.append((row, file))
                places[_same_name(file)].remove(row)
                break
    return moved


def _same_name(file: Row[Any] | TranscriptFile) -> tuple[str, str | None, str]:
    """What does not change when a project's folder is moved. An old agent file's session is not told by its place."""
    return file.kind, file.session_id if "/" in file.name or file.kind != "agent" else None, file.name


def _begins_alike(row: Row[Any], file: TranscriptFile) -> bool:
    try:
        with open(file.path, "rb") as opened:
            return bool(digest(opened.read(min(row.kept_size, EDGE))) == row.head_digest)
    except OSError:
        return False


# -- marks -------------------------------------------------------------------------------------------------------------------


def _mark(connection: Connection, source: str, plan: _Plan, report: ImportReport) -> None:
    for row, file in plan.moved:
        same_path = (files.c.source == source) & (files.c.path == row.path)
        places = {"path": file.path, "project_key": file.project_key}
        keys = connection.scalars(select(files.c.id).where(same_path)).all()
        if row.project_key != file.project_key:  # what is searched tells the project: it is derived anew
            for key in keys:
                clear(connection, key)
            connection.execute(update(files).where(same_path).values(**places, derived_version=0))
            continue
        connection.execute(update(files).where(same_path).values(**places))
        for key in keys:  # where copies are equal, the path decides whose response and whose summary counts
            update_responses(connection, responses_of(connection, key))
            update_copies(connection, calls_of(connection, key))
        named = named_sessions(connection, row.id)
        for session in sorted(named | {row.id} if row.kind == "main" else named):
            update_session(connection, session)
    for row in plan.vanished:
        connection.execute(update(files).where(files.c.id == row.id).values(state="gone"))
    report.moved += len(plan.moved)
    report.vanished += len(plan.vanished)


def _new_roots(connection: Connection, source: str, scans: list[Scan]) -> list[str]:
    known = list(connection.scalars(select(roots.c.path).where(roots.c.source == source)))
    read = dict.fromkeys(one.root for one in scans if one.root not in one.unread)
    return [path for path in read if not any(_lies_below(path, root) for root in known)]


def _remember(connection: Connection, source: str, paths: list[str]) -> None:
    for path in paths:
        known = connection.scalars(select(roots.c.path).where(roots.c.source == source)).all()
        covered = [root for root in known if _lies_below(root, path)]
        connection.execute(delete(roots).where(roots.c.source == source, roots.c.path.in_(covered)))
        connection.execute(insert(roots).values(source=source, path=path))
