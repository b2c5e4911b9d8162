"""Other programs that import or read transcripts: how each is run, and what of a session its index holds.

Invariants:
- A peer is installed into an environment of its own, and runs with a HOME of its own that holds `.claude/projects` as links to
  the files, one a file: it can write beside them, and our files cost no second copy.
- It reaches no network: its proxy is a closed port of this machine. What it leaves running is stopped.
- What is not in its index is not believed but found out: a session with a word of its own in each place is imported, and each
  word is searched in each full-text table of its database.
- A run counts when the peer says that it succeeded and its result is not empty.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import orjson

from benches.analytics import DUCKDB
from benches.rivals import environment, npm_environment
from benches.timing import Spent, process, stored, tell

LIMIT = 600  # seconds that a peer gets for a run
OUT = "out"  # in its HOME: what it wrote to standard output
CLOSED = "http://127.0.0.1:9"

LOAD_LINES = """
import duckdb, pathlib
home = pathlib.Path.home()
connection = duckdb.connect(str(home / "lines.duckdb"))
connection.execute("SET enable_progress_bar = false")
connection.execute("CREATE TABLE lines AS SELECT filename, json FROM read_json_objects(?, format = 'newline_delimited', "
    "ignore_errors = true, filename = true, maximum_object_size = 100000000)", [f"{home}/.claude/projects/**/*.jsonl"])
print(connection.execute("SELECT count(*) FROM lines").fetchone()[0])
"""


class Peer(NamedTuple):
    """A program to compare with. `command` begins with the name of a program in its environment.

    `database` is its path below HOME, None where it keeps none; `counted` is how many things a run gave; `leaves_out` says
    what it has no index of, None where its full-text tables are to be asked; `again` is whether it can be run anew on what it
    has imported, to find what is new.
    """

    name: str
    package: str
    version: str
    command: tuple[str, ...]
    database: str | None
    counted: Callable[[Path], int]
    leaves_out: str | None = None
    again: bool = True
    npm: bool = False

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def programs(self) -> Path | None:
        """The folder of its programs; it is installed first; None when it cannot be."""
        if self.npm:
            return npm_environment(self.package, self.version)
        python = environment(self.package, self.version)
        return python and python.parent


class Home(NamedTuple):
    """A HOME for a peer."""

    peer: Peer
    programs: Path
    folder: Path

    def run(self, *command: str, limit: float = LIMIT, out: Path | None = None) -> Spent:
        """Run a program of the peer; without a command that which imports."""
        program, *words = command or self.peer.command
        environ = {"PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        environ |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), CLOSED)
        environ |= {"NO_COLOR": "1", "DO_NOT_TRACK": "1", "AGENTSVIEW_NO_DAEMON": "1"}
        return process([self.programs / program, *words], environ, limit, out or self.folder / OUT)

    def imported(self) -> bool:
        """Import, and whether that counts."""
        tell(f"importing with {self.peer.title}")
        return self.wrong(self.run()) is None

    def wrong(self, spent: Spent) -> str | None:
        """What is wrong with a run, for a cell of a table; None when it counts."""
        if spent.status is None:
            found = f"> {LIMIT} s"
        elif spent.status:
            found = f"ended with {spent.status}"
        elif not self.given():
            found = "gave nothing"
        else:
            return None
        tell(f"{self.peer.title}: {found} {spent.words[:200]}")
        return found

    def given(self) -> int:
        """How many things its run has given."""
        with contextlib.suppress(OSError, ValueError, KeyError, sqlite3.Error):
            return self.peer.counted(self.folder)
        return 0

    @property
    def database(self) -> Path | None:
        return self.folder / self.peer.database if self.peer.database else None

    def size(self) -> int | None:
        """The bytes of its database."""
        return None if self.database is None else stored(self.database)


def make_home(peer: Peer, programs: Path, folder: Path, projects: Path) -> Home:
    """A new HOME with these transcripts."""
    for path in projects.rglob("*"):
        if path.is_file():
            link = folder / ".claude" / "projects" / path.relative_to(projects)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(path)
    return Home(peer, programs, folder)


def installed(peers: Mapping[str, Peer]) -> Iterator[tuple[Peer, Path]]:
    """Those peers that can be had, and where their programs are."""
    for peer in peers.values():
        programs = peer.programs()
        if programs is None:
            tell(f"{peer.title} cannot be installed")
        else:
            yield peer, programs


# -- what a run gave -------------------------------------------------------------------------------------------------------


def full_text_tables(connection: sqlite3.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"
    return [row[0] for row in connection.execute(sql)]


def opened(database: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True))


def documents(database: str) -> Callable[[Path], int]:
    """How many documents the full-text tables of a database hold."""

    def counted(home: Path) -> int:
        with opened(home / database) as connection:
            tables = full_text_tables(connection)
            return sum(connection.execute(f'SELECT count(*) FROM "{name}_docsize"').fetchone()[0] for name in tables)

    return counted


def pages(home: Path) -> int:
    return sum(1 for _ in home.glob(".claude/projects/*/*.html"))


def tokens(home: Path) -> int:
    return int(orjson.loads((home / OUT).read_bytes())["totals"]["totalTokens"])


def number(home: Path) -> int:
    return int((home / OUT).read_text())


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "agentsview", "agentsview", "0.46.1", ("agentsview", "sync"),
            ".agentsview/sessions.db", documents(".agentsview/sessions.db"),
        ),
        Peer(
            "claude-session-search", "claude-session-search", "0.2.0", ("cc-search", "--reindex"),
            ".cc-search/index.db", documents(".cc-search/index.db"),
        ),
        Peer(
            "embers", "embers-memory", "0.2.0", ("embers", "ingest"),
            ".memory-archive/mem.db", documents(".memory-archive/mem.db"),
        ),
        Peer(
            "claude-code-log", "claude-code-log", "1.7.0", ("claude-code-log", "--all-projects"),
            ".claude/projects/claude-code-log-cache.db", pages, "everything: it makes HTML pages",
        ),
        Peer(
            "ccusage", "ccusage", "18.0.11", ("ccusage", "daily", "--json", "--offline"),
            None, tokens, "everything: it counts tokens and keeps nothing", npm=True,
        ),
        Peer(
            "DuckDB", "duckdb", DUCKDB, ("python", "-c", LOAD_LINES),
            "lines.duckdb", number, "everything: a table of the lines", again=False,
        ),
    )
}  # fmt: skip


# -- what an index leaves out ----------------------------------------------------------------------------------------------

SPOKEN = ("prompts", "replies", "thinking", "tool inputs", "results")
AFTER = (5_000, 20_000, 60_000, 100_000)  # characters of a long result behind which a word stands
FILLER = "it was there and not here so that is what we have "
BEGINNING = "qzv"


def word(place: str) -> str:
    """The word that stands in a place of the probe."""
    return BEGINNING + "".join(character for character in place if character.isalnum())


def places() -> list[str]:
    """Where a word stands in the probe, as a table tells it."""
    cut = [f"results after {after:,} characters" for after in AFTER]
    return [*SPOKEN, *cut, "titles", "summaries", "sub-agents"]


def write_probe(projects: Path) -> None:
    """Write a session with a word of its own in each place, and a sub-agent of it."""
    session, folder = "5b0f6f0e-7d1c-4f3a-9a51-7c1c2f6a9d10", projects / "-home-dev-probe"
    lines: list[dict[str, Any]] = []

    def add(kind: str, content: Any, **more: Any) -> None:
        at = len(lines)
        own = str(uuid4())
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            usage = {"input_tokens": 9, "output_tokens": 99, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
            message |= {"id": f"msg_{at}", "type": "message", "model": "claude-opus-4-8", "stop_reason": None, "usage": usage}
            more["requestId"] = f"req_{at}"
        lines.append({
            "parentUuid": lines[-1]["uuid"] if lines else None, "isSidechain": False, "userType": "external", "type": kind,
            "cwd": "/home/dev/probe", "sessionId": session, "version": "2.1.232", "gitBranch": "main", "message": message,
            "uuid": own, "timestamp": f"2026-03-05T11:{at:02d}:00.000Z", **more,
        })  # fmt: skip

    def call(number: str, command: str, result: str) -> None:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
        add("assistant", [block])
        add("user", [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}])

    add("user", f"please look at {word('prompts')} and tell what it is")
    add("assistant", [{"type": "thinking", "thinking": f"perhaps {word('thinking')} it is", "signature": "c2ln"}])
    call("1", f"cat {word('tool inputs')}", f"it says {word('results')} there")
    for after in AFTER:
        call(f"at{after}", "cat more", (FILLER * (after // len(FILLER) + 1)) + word(f"results after {after:,} characters"))
    add("assistant", [{"type": "text", "text": f"this is {word('replies')} and no more"}])
    add("user", "thank you, and what else is there")
    add("assistant", [{"type": "text", "text": "nothing else is there"}])
    add("user", f"This session is continued. {word('summaries')} was asked.", isCompactSummary=True)
    title = {"type": "custom-title", "customTitle": f"About {word('titles')} here", "sessionId": session}
    write_lines(folder / f"{session}.jsonl", [*lines, title])
    lines.clear()
    add("user", f"look for {word('sub-agents')} in it", isSidechain=True, agentId="a1fbd6e5bde22ebd9")
    add("assistant", [{"type": "text", "text": "it is there"}], isSidechain=True, agentId="a1fbd6e5bde22ebd9")
    write_lines(folder / session / "subagents" / "agent-a1fbd6e5bde22ebd9.jsonl", lines)


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def left_out(database: Path) -> list[str]:
    """The places of the probe whose word no full-text table of a database has; of a text that is cut only the first."""
    with opened(database) as connection:
        tables = full_text_tables(connection)
        missing = [place for place in places() if not any(has_word(connection, name, word(place)) for name in tables)]
    behind = [place for place in missing if place.startswith("results after")]
    told = 0 if "results" in missing else 1
    return [place for place in missing if place not in behind[told:]]


def has_word(connection: sqlite3.Connection, table: str, asked: str) -> bool:
    return bool(connection.execute(f'SELECT count(*) FROM "{table}" WHERE "{table}" MATCH ?', (asked,)).fetchone()[0])


def asked(peer: Peer, programs: Path, folder: Path) -> list[str]:
    """What a peer's index leaves out, as it treats the probe."""
    write_probe(folder / "probe" / "projects")
    home = make_home(peer, programs, folder / "home", folder / "probe" / "projects")
    home.run(limit=60)
    if home.database is None or not home.given():
        return places()
    return left_out(home.database)
