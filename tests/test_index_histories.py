"""Whatever happens to a folder of transcripts, and wherever an import is stopped: all is kept, and the database is sound."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.builders import Lab, Log, rows, session_id, stopped_after
from tests.soup import lines
from transcripts.errors import FileExists, NotFound
from transcripts.files import reader
from transcripts.index import prepare

NUMBERS = st.integers(1, 3)
KEYS = st.sampled_from(["-a", "-b"])


@st.composite
def part(draw: st.DrawFn) -> bytes:
    return draw(lines(session_id(1)))


class Histories(RuleBasedStateMachine):
    """A folder, its database, and what must never be lost."""

    lab: Lab

    @initialize()
    def begin(self) -> None:
        self.home = self.lab.home("history")
        self.seen: set[bytes] = set()  # every text that stood at a path when all was synced
        self.tokens: dict[str, int] = {}

    # -- what happens to files ---------------------------------------------------------------------------------------------

    @rule(number=NUMBERS, key=KEYS, turns=st.integers(0, 4), first=st.sampled_from([1, 3, 50]))
    def write_a_conversation(self, number: int, key: str, turns: int, first: int) -> None:
        log = Log(session_id(number), first=first).turns(turns)
        log.summary(f"Talk {first}", leaf=f"00000000-0000-4000-8000-{first:012}")
        self.home.write(log, key=key)

    @rule(number=NUMBERS, key=KEYS, parts=st.lists(part(), max_size=4), end=st.sampled_from([b"\n", b""]))
    def write_anything(self, number: int, key: str, parts: list[bytes], end: bytes) -> None:
        self.home.write(b"\n".join(parts) + end, session_id(number), key=key)

    @rule(number=NUMBERS, key=KEYS, added=part(), end=st.sampled_from([b"\n", b""]))
    def append(self, number: int, key: str, added: bytes, end: bytes) -> None:
        path = self.home.path(session_id(number), key)
        if path.exists():
            with path.open("ab") as file:
                file.write(added + end)

    @rule(number=NUMBERS, key=KEYS, size=st.integers(0, 2000))
    def cut(self, number: int, key: str, size: int) -> None:
        path = self.home.path(session_id(number), key)
        if path.exists():
            path.write_bytes(path.read_bytes()[:size])

    @rule(number=NUMBERS, key=KEYS)
    def delete(self, number: int, key: str) -> None:
        self.home.path(session_id(number), key).unlink(missing_ok=True)

    @rule(number=NUMBERS, key=KEYS, other=KEYS)
    def move(self, number: int, key: str, other: str) -> None:
        path = self.home.path(session_id(number), key)
        if path.exists():
            target = self.home.path(session_id(number), other)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)

    @rule(number=NUMBERS, key=KEYS, other=NUMBERS)
    def copy(self, number: int, key: str, other: int) -> None:
        path = self.home.path(session_id(number), key)
        if path.exists():
            self.home.write(path.read_bytes(), session_id(other), key=key)

    # -- what is done with the database ------------------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        self.home.sync()
        self.check()

    @rule(number=NUMBERS, key=KEYS)
    def sync_one(self, number: int, key: str) -> None:
        self.home.sync(self.home.path(session_id(number), key))

    @rule(commits=st.integers(1, 9))
    def stop_a_sync(self, commits: int) -> None:
        with stopped_after(commits):
            self.home.sync()

    @rule(commits=st.integers(1, 9))
    def stop_a_rebuild(self, commits: int) -> None:
        with stopped_after(commits), self.home.open() as index:
            index.rebuild()

    @precondition(lambda self: self.seen)
    @rule(number=NUMBERS)
    def restore(self, number: int) -> None:
        with self.home.open() as index, suppress(FileExists, NotFound):
            index.restore(str(self.home.path(session_id(number), "-a")))

    # -- what must hold ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        with self.home.open() as index:
            assert index.damage() == []
            kept = {self._export(index, path, version) for path, version in rows(index, "SELECT path, version FROM files")}
            for path in self.home.projects.rglob("*.jsonl"):
                data = path.read_bytes()
                assert self._export(index, str(path.resolve()), None) == data
                self.seen.add(data)
            assert [data for data in self.seen if not any(text.startswith(data) for text in kept)] == []
            tokens = dict(rows(index, "SELECT response, output_tokens FROM responses"))
            assert all(tokens.get(response, -1) >= amount for response, amount in self.tokens.items())
            self.tokens = tokens
            listed = sorted((told.id, told.path) for told in index.sessions())
            files = "SELECT session_id, path FROM files WHERE state != 'replaced' ORDER BY 1, 2"
            assert listed == rows(index, files)

    def _export(self, index: Any, path: str, version: int | None) -> bytes:
        out = BytesIO()
        index.export(path, out, version=version)
        return out.getvalue()

    def teardown(self) -> None:
        self.home.sync()
        self.check()
        before = self.home.state()
        with self.home.open() as index:
            index.rebuild()
            assert not index.sync().changed
        assert self.home.state() == before


def test_whatever_happens_all_is_kept_and_the_database_is_sound(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "BATCH_BYTES", 1)  # many small transactions
    monkeypatch.setattr(reader, "BLOCK_SIZE", 600)
    monkeypatch.setattr(Histories, "lab", lab, raising=False)
    run_state_machine_as_test(Histories, settings=settings(max_examples=10, stateful_step_count=15))
