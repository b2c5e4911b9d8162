"""Tiny builders: a line, a session, a project folder; and the whole content of a database as one value to compare.

A `Log` writes what a client would: each chain line hangs on the one before, a second later. Uuids are counted up, so that
a failing example can be read.
"""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from sqlalchemy import Connection, select

from transcripts.api import Index
from transcripts.files.entry import load
from transcripts.index import fulltext
from transcripts.index.archive import Archive
from transcripts.index.content import content, totals
from transcripts.index.database import Database
from transcripts.index.memory import Memory
from transcripts.index.report import ImportReport
from transcripts.index.schema import entries, files
from transcripts.index.text import SEARCHED_TYPES, passages
from transcripts.sessions import catalog

CASES = Path(__file__).parent / "cases"
KEY = "-home-dev-shop"
CWD = "/home/dev/shop"
START = datetime(2026, 3, 1, 10, tzinfo=UTC)

Json = dict[str, Any]


def session_id(number: int) -> str:
    return f"5e551010-0000-4000-8000-{number:012d}"


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def millis(seconds: float) -> int:
    return int((START.timestamp() + seconds) * 1000)


def dumps(record: object) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(key: str, name: str = "Bash", **given: object) -> Json:
    return {"type": "tool_use", "id": key, "name": name, "input": given}


def result(key: str, content: object = "done", **fields: object) -> Json:
    return {"type": "tool_result", "tool_use_id": key, "content": content, **fields}


@dataclass
class Log:
    """The lines of one transcript. `tip` is the uuid that the next chain line hangs on."""

    session: str = session_id(1)
    first: int = 1  # the number of the first uuid
    start: float = 0  # seconds after START
    common: Json = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    tip: str | None = None
    count: int = 0

    def chain(self, kind: str, **fields: object) -> str:
        """Add a chain line; its uuid."""
        record: Json = {
            "parentUuid": self.tip, "isSidechain": False, "type": kind, "uuid": uuid(self.first + self.count),
            "timestamp": stamp(self.start + self.count), "sessionId": self.session, "cwd": CWD, "version": "2.1.332",
            "gitBranch": "main",
        }  # fmt: skip
        record |= self.common | fields
        self.lines.append(dumps(record))
        self.count += 1
        self.tip = record["uuid"]
        return str(record["uuid"])

    def user(self, content: object = "hello", **fields: object) -> str:
        return self.chain("user", message={"role": "user", "content": content}, **fields)

    def assistant(
        self,
        content: object = "an answer",
        *,
        id: str | None = None,
        tokens: int | Json | None = None,
        model: str = "claude-opus-5",
        **fields: object,
    ) -> str:
        """Add a line of a reply; `tokens` are its output tokens, or the whole usage."""
        blocks = [text(content)] if isinstance(content, str) else content
        message: Json = {"role": "assistant", "type": "message", "model": model, "content": blocks}
        if id is not None:
            message["id"] = id
        if tokens is not None:
            message["usage"] = tokens if isinstance(tokens, dict) else {"input_tokens": 1, "output_tokens": tokens}
        return self.chain("assistant", message=message, **fields)

    def about(self, kind: str, **fields: object) -> None:
        """Add a line about the session."""
        self.lines.append(dumps({"type": kind, "sessionId": self.session, **fields}))

    def title(self, words: str) -> None:
        self.about("custom-title", customTitle=words)

    def summary(self, words: str, leaf: str) -> None:
        self.lines.append(dumps({"type": "summary", "summary": words, "leafUuid": leaf}))

    def raw(self, line: bytes) -> None:
        self.lines.append(line)

    def turns(self, number: int, words: str = "word") -> Log:
        """Add so many prompts with a reply each."""
        for at in range(number):
            self.user(f"{words} {self.first + self.count} ask {at}")
            self.assistant(f"{words} {self.first + self.count} tell {at}", id=f"msg_{self.first + self.count}", tokens=at + 1)
        return self

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)


@dataclass
class Home:
    """A client's projects folder with one database beside it."""

    root: Path
    db: Path
    held: Index | None = None

    @property
    def projects(self) -> Path:
        return self.root / "projects"

    def path(self, name: str, key: str = KEY) -> Path:
        return self.projects / key / (name if "." in name else f"{name}.jsonl")

    def write(self, log: Log | bytes, name: str = session_id(1), key: str = KEY) -> Path:
        """Write a file anew, in place; its path."""
        path = self.path(log.session if isinstance(log, Log) else name, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log.data if isinstance(log, Log) else log)
        return path

    @contextmanager
    def open(self, fresh: bool = False) -> Iterator[Index]:
        if self.held is not None:
            yield self.held
            return
        if not self.db.exists():
            empty_database(self.db)
        with Index.open(self.db, fresh) as index:
            yield index

    def sync(self, *paths: Path) -> ImportReport:
        """Import the paths, or all of the projects folder."""
        with self.open() as index:
            return index.sync(paths or [self.projects])

    def state(self) -> Json:
        with self.open() as index:
            return state(index, self.root)


def corpus(home: Home, sessions: int, turns: int) -> None:
    """Sessions of some size that share responses, name each other in summaries, and have sub-agents and side files."""
    logs = [Log(session_id(at), first=at * 100_000, start=at * 10_000) for at in range(1, sessions + 1)]
    for at, log in enumerate(logs, 1):
        log.user(f"prompt of session {at}")
        for turn in range(turns):
            log.assistant([text(f"reply {turn} " + "kettle pond heron " * (turn % 40)), call(f"toolu_{at}_{turn}", command="ls")],
                          id=f"msg_{at}_{turn // 2}", requestId=f"req_{turn // 2}", tokens=turn)  # fmt: skip
            log.chain("progress", data={"type": "bash_progress"})
            log.user([result(f"toolu_{at}_{turn}", "line\n" * (turn % 30))])
        log.summary(f"Summary from {at}", leaf=uuid((at % sessions + 1) * 100_000 + 1))
        if at % 3 == 0:
            log.lines += logs[at - 2].lines[: turns // 2]  # lines copied from another session
        if at % 4 == 0:
            log.title(f"Title {at}")
            log.raw(b'{"torn":')
        home.write(log, key=f"-home-dev-p{at % 2}")
        helper = Log(log.session, first=at * 100_000 + 50_000, common={"isSidechain": True, "agentId": f"a{at}"}).turns(
            turns // 10
        )
        home.write(helper.data, f"{log.session}/subagents/agent-a{at}.jsonl", key=f"-home-dev-p{at % 2}")
        home.write(b'{"agentType":"helper"}', f"{log.session}/subagents/agent-a{at}.meta.json", key=f"-home-dev-p{at % 2}")


class Lab:
    """Homes that are emptied and used again, for properties: an open database keeps its compiled statements."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, tuple[Home, Index]] = {}

    def home(self, name: str) -> Home:
        """The home of that name, empty."""
        home, index = self._held.get(name) or self._new(name)
        home.root = self._folder / name
        database_of(index).close()
        index._memory = Memory()
        for path in (home.db, *home.db.parent.glob(f"{home.db.name}-*")):
            path.unlink()
        shutil.rmtree(home.root, ignore_errors=True)
        empty_database(home.db)
        return home

    def _new(self, name: str) -> tuple[Home, Index]:
        home = Home(self._folder / name, self._folder / f"{name}-data" / "index.db")
        index = Index.open(empty_database(home.db), fresh=False)
        home.held = index
        self._held[name] = home, index
        return home, index

    def close(self) -> None:
        for _home, index in self._held.values():
            index.close()


@cache
def _template() -> Path:
    """An empty database: making one runs Alembic, copying it does not."""
    folder = Path(mkdtemp(prefix="transcripts-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Index.open(folder / "empty.db").close()
    return folder / "empty.db"


def empty_database(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(_template(), path)
    return path


def database_of(index: Index) -> Database:
    return index._database


class Stopped(Exception):
    """An import was stopped on purpose."""


@contextmanager
def stopped_after(commits: int) -> Iterator[None]:
    """An import inside this block stops after so many transactions."""
    write, left = Database.write, [commits]

    @contextmanager
    def counted(self: Database) -> Iterator[Connection]:
        with write(self) as connection:
            yield connection
        left[0] -= 1
        if left[0] <= 0:
            raise Stopped

    with pytest.MonkeyPatch.context() as patched, suppress(Stopped):
        patched.setattr(Database, "write", counted)
        yield


# -- all that a database says ----------------------------------------------------------------------------------------------


def state(index: Index, root: Path) -> Json:
    """Everything that two imports of the same files must agree on; paths are told from `root`."""
    database = database_of(index)
    with database.write() as connection:
        assert fulltext.compare(connection) == [], "the search index disagrees with the texts"
        assert fulltext.misplaced(connection) == [], "an indexed entry lies outside of its span"
        assert fulltext.pending(connection) == 0, "entries wait to be indexed"
    said: Json = {"files": {}, "rows": {}, "bytes": {}, "search": {}}
    with database.read() as connection:
        for row in connection.execute(select(files)):
            place = (_below(row.path, root), row.version)
            said["files"][place] = {
                name: value for name, value in row._mapping.items() if name not in _FLEETING
            }  # fmt: skip
            said["rows"][place] = content(connection, row.id)
            said["bytes"][place] = b"".join(Archive(connection, row.id))
            said["search"][place] = _searched(index, row.id)
        said["totals"] = totals(connection)
        for values in [*said["totals"]["responses"].values(), *said["totals"]["calls"].values()]:
            values["path"] = _below(values["path"], root)
        said["list"] = [asdict(info) | {"path": _below(info.path, root)} for info in catalog.listed(connection)]
    return said


_FLEETING = ("id", "path", "device", "inode", "mtime_ns", "ctime_ns")


def _below(path: str, root: Path) -> str:
    return path.removeprefix(f"{root.resolve()}/")


def _searched(index: Index, file: int) -> Json:
    """What is searched of a file's records by their offset, from the kept bytes."""
    with database_of(index).read() as connection:
        kept = Archive(connection, file)
        rows = connection.execute(
            select(*entries.c["offset", "length"])
            .where(entries.c.file == file, entries.c.type.in_(SEARCHED_TYPES))
            .order_by(entries.c.offset)
        ).all()
        return {str(row.offset): passages(load(kept.read_at(row.offset, row.length))) for row in rows}


def count(index: Index, table: str) -> int:
    return int(index.sql(f"SELECT count(*) FROM {table}").rows[0][0])


def rows(index: Index, statement: str, *params: object) -> list[tuple[Any, ...]]:
    return index.sql(statement, params).rows


def differing(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two states disagree, each in a line; empty means nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other}, key=str)
        return [line for key in keys for line in differing(one.get(key), other.get(key), f"{place} {key}")]
    return [] if one == other else [f"{place}: {one!r} != {other!r}"]
