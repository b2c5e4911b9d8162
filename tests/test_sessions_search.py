"""Search: what is found, narrowed, folded and ordered, and what the result says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import KEY, START, Home, Lab, Log, call, database_of, millis, result, session_id, uuid
from transcripts import Index, InvalidRequest, NotFound
from transcripts.index import fulltext
from transcripts.index.words import words
from transcripts.sessions import hits, matching
from transcripts.sessions import search as engine
from transcripts.sessions.filters import Filters

FAULTS = Path(__file__).parent / "cases" / "faults"
NOW = int((START + timedelta(days=1)).timestamp() * 1000)


@pytest.fixture
def index(home: Home) -> Iterator[Index]:
    with home.open() as opened:
        yield opened


def written(home: Home, index: Index, *logs: Log, key: str = KEY) -> Index:
    for log in logs:
        home.write(log, key=key)
    index.sync([home.projects])
    return index


def uuids(index: Index, query: str, **wanted: Any) -> list[str | None]:
    return [hit.uuid for hit in index.search(query, **wanted).hits]


def snippets(index: Index, query: str, **wanted: Any) -> list[str]:
    return [hit.snippet for hit in index.search(query, **wanted).hits]


class TestFound:
    TEXTS = (
        "call parse_config before main",
        "then parseConfig returns",
        "std::vector and C++ and .NET",
        "see src/app/main.py line 3",
        "foo.bar() raised",
        "git push --no-verify",
        "error[E0308] and ERR_MODULE_NOT_FOUND and 0x80070005",
        "https://docs.example/a/b?page=2#top",
        "deploy 🚀 done, naïve café",
        "使用React开发 数据库连接",
        "日本語のテスト",
        "백트래킹 깊이 한도",
    )

    @pytest.mark.parametrize(
        ("query", "at"),
        [
            ("parse_config", 0), ("config", 1), ("Config", 1), ("parseConfig", 1), ("parseconf*", 1), ("std::vector", 2),
            ("vector", 2), ("C++", 2), (".NET", 2), ("src/app/main.py", 3), ("main.py", 3), ("foo.bar()", 4), ("--no-verify", 5),
            ("verify", 5), ("E0308", 6), ("ERR_MODULE_NOT_FOUND", 6), ("module_not", 6), ("0x80070005", 6),
            ("https://docs.example/a/b?page=2", 7), ("docs.example", 7), ("🚀", 8), ("naive", 8), ("CAFÉ", 8),
            ('"deploy 🚀 done"', 8), ("用", 9), ("数据", 9), ("数据库连", 9), ("react", 9), ("テスト", 10), ("本語", 10),
            ("백트", 11), ("도", 11),
        ],
    )  # fmt: skip
    def test_words_identifiers_codes_symbols_and_scripts(self, home: Home, index: Index, query: str, at: int) -> None:
        log = Log()
        lines = [log.user(words) for words in self.TEXTS]
        assert lines[at] in uuids(written(home, index, log), query)

    def test_a_made_up_word_is_told_from_its_letter(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("section c of the list, C# too")
        plus = log.user("written in C++")
        assert uuids(written(home, index, log), "C++") == [plus]

    @pytest.mark.parametrize(
        ("query", "at"),
        [
            ("alpha beta", {0}), ("alpha AND beta", {0}), ("alpha OR gamma", {0, 1, 2}), ("alpha NOT beta", {1}),
            ('"beta alpha"', set()), ('"alpha beta"', {0}), ("gam*", {2}), ("(alpha OR gamma) AND delta", {1, 2}),
            ("prompt:gamma", set()), ("reply:gamma", {2}),
        ],
    )  # fmt: skip
    def test_operators(self, home: Home, index: Index, query: str, at: set[int]) -> None:
        log = Log()
        lines = [log.user("alpha beta"), log.user("alpha delta"), log.assistant("gamma delta")]
        assert {*uuids(written(home, index, log), query)} == {lines[place] for place in at}

    def test_every_part_of_a_message_has_its_column(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("heron in a prompt")
        log.assistant([{"type": "thinking", "thinking": "heron thought"}], id="msg_a")
        log.assistant("heron said", id="msg_b")
        log.assistant([call("toolu_1", "Bash", command="grep heron")], id="msg_c")
        log.user([result("toolu_1", "one heron")])
        log.title("Heron title")
        log.summary("heron summary", leaf="x")
        written(home, index, log)
        for kind in ("prompt", "thinking", "reply", "tool", "result", "title", "summary"):
            for found in (index.search(f"{kind}:heron"), index.search("heron", kind=kind)):
                assert [hit.kind for hit in found.hits] == [kind]
        assert index.search("heron").hits[0].kind == "title"

    def test_the_reported_queries(self, home: Home, index: Index) -> None:
        """F47: the first 24 find the session, the last 11 give nothing with a reason."""
        index.sync([FAULTS / "fts-syntax" / "projects"])
        queries = (FAULTS / "fts-syntax" / "queries.txt").read_text().split("\n")[:35]
        assert len(queries) == 35
        for query in queries[:24]:
            assert index.search(query).hits, query
        for query in queries[24:]:
            found = index.search(query)
            assert (found.hits, bool(found.reason)) == ((), True), query

    def test_the_reported_cjk_texts(self, home: Home, index: Index) -> None:
        index.sync([FAULTS / "cjk-search" / "projects"])
        for query, at in (
            ("悬空引用", 1),
            ("itgc", 1),
            ("评审会议", 2),
            ("天気はどう", 3),
            ("백트래킹", 4),
            ("悬", 1),
            ("会议", 2),
            ("東", 3),
        ):
            assert [hit.uuid[-1:] for hit in index.search(query).hits if hit.uuid] == [str(at)], query

    @given(st.text(max_size=40))
    def test_no_query_is_an_error_and_none_is_silently_empty(self, lab: Lab, query: str) -> None:
        found = self._sample(lab).search(query)
        assert found.hits or found.reason

    @given(
        st.lists(st.sampled_from(["alpha", "beta", "AND", "OR", "NOT", "(", ")", '"', "reply:", "*", "-", "C++", "数", "\x00"]))
    )
    def test_no_query_of_operators_is_an_error(self, lab: Lab, parts: list[str]) -> None:
        found = self._sample(lab).search(" ".join(parts))
        assert found.hits or found.reason

    @given(st.text(min_size=1, max_size=30))
    def test_what_was_written_is_found_by_each_of_its_words(self, lab: Lab, words_written: str) -> None:
        home = lab.home("written")
        log = Log()
        said = log.user(words_written)
        with home.open() as index:
            written(home, index, log)
            for word in words(words_written):
                found = index.search(f'"{words_written[word.start : word.end]}"')
                assert [hit.uuid for hit in found.hits] == [said] or found.reason

    def _sample(self, lab: Lab) -> Index:
        if not hasattr(lab, "sample"):
            home = lab.home("sample")
            written(home, home.held or Index.open(home.db), Log().turns(3, "alpha beta"))
            lab.sample = home.held  # type: ignore[attr-defined]
        return lab.sample  # type: ignore[attr-defined,no-any-return]


class TestFilters:
    @pytest.fixture
    def sample(self, home: Home, index: Index) -> Index:
        """Two sessions in two projects, one with a sub-agent."""
        one, two = (
            Log(session_id(1), first=1),
            Log(session_id(2), first=101, start=100_000, common={"cwd": "/home/dev/pond", "gitBranch": "fix"}),
        )
        one.user("heron one")  # 1
        one.assistant([call("toolu_1", "Bash", command="ls heron")], id="msg_1", model="claude-opus-5")  # 2
        one.user([result("toolu_1", "heron list")])  # 3
        one.assistant([call("toolu_2", "Read", file_path="/heron")], id="msg_2", model="claude-haiku-4-5")  # 4
        one.user([result("toolu_2", "heron text")])  # 5
        two.user("heron two")  # 101
        two.assistant("heron reply", id="msg_3")  # 102
        side = Log(session_id(1), first=201, common={"isSidechain": True, "agentId": "a1"})
        side.user("heron aside")  # 201
        home.write(one, key="-home-dev-src")
        home.write(two, key="-home-dev-pond")
        home.write(side.data, f"{session_id(1)}/subagents/agent-a1.jsonl", key="-home-dev-src")
        index.sync([home.projects])
        return index

    @pytest.mark.parametrize(
        ("wanted", "numbers"),
        [
            ({}, {1, 2, 3, 4, 5, 101, 102, 201}),
            ({"project": "pond"}, {101, 102}),
            ({"project": "/home/dev/pond"}, {101, 102}),
            ({"project": "-home-dev-src"}, {1, 2, 3, 4, 5, 201}),
            ({"session": session_id(2)}, {101, 102}),
            ({"session": session_id(1)}, {1, 2, 3, 4, 5, 201}),
            ({"role": "assistant"}, {2, 4, 102}),
            ({"role": "user"}, {1, 3, 5, 101, 201}),
            ({"kind": "prompt"}, {1, 101, 201}),
            ({"kind": "result"}, {3, 5}),
            ({"tool": "bash"}, {2, 3}),
            ({"tool": "Read"}, {4, 5}),
            ({"tool": "Bash", "kind": "result"}, {3}),
            ({"model": "haiku"}, {4}),
            ({"model": "claude"}, {2, 4, 102}),
            ({"branch": "fix"}, {101, 102}),
            ({"since": millis(50_000)}, {101, 102}),
            ({"until": millis(50_000)}, {1, 2, 3, 4, 5, 201}),
            ({"since": millis(1), "until": millis(3)}, {2, 3}),
            ({"sidechains": False}, {1, 2, 3, 4, 5, 101, 102}),
            ({"project": "-home-dev-src", "role": "user", "kind": "prompt", "sidechains": False, "until": millis(9)}, {1}),
            ({"live": True}, {1, 2, 3, 4, 5, 101, 102, 201}),
        ],
    )  # fmt: skip
    def test_each_alone_and_together(self, sample: Index, wanted: dict[str, Any], numbers: set[int]) -> None:
        for newest in (False, True):
            assert {*uuids(sample, "heron", newest=newest, **wanted)} == {uuid(number) for number in numbers}
        if "live" not in wanted:
            assert sample.search_count("heron", **wanted) == len(numbers)

    @pytest.mark.parametrize(
        ("wanted", "why"),
        [
            ({"project": "nowhere"}, "no project is called 'nowhere'"),
            ({"tool": "Sing"}, "no tool is called 'Sing'"),
            ({"model": "gpt"}, "no model is called 'gpt'"),
            ({"since": millis(10**9)}, "no message is of that time"),
            ({"branch": "fix", "project": "-home-dev-src"}, "all matches are filtered out"),
        ],
    )
    def test_one_that_nothing_meets_says_so(self, sample: Index, wanted: dict[str, Any], why: str) -> None:
        found = sample.search("heron", **wanted)
        assert (found.hits, found.reason) == ((), why)

    @pytest.mark.parametrize("wanted", [{"role": "robot"}, {"kind": "song"}, {"limit": -1}, {"context": -1}, {"offset": -1}])
    def test_misuse_is_an_error_that_says_what_there_is(self, sample: Index, wanted: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequest):
            sample.search("heron", **wanted)
        with pytest.raises(NotFound):
            sample.search("heron", session="nobody")

    def test_a_moved_session_is_found_in_its_new_project_alone(self, home: Home, sample: Index) -> None:
        (home.projects / "-home-dev-pond").rename(home.projects / "-home-dev-lake")
        sample.sync([home.projects])
        assert {*uuids(sample, "heron", project="-home-dev-lake")} == {uuid(101), uuid(102)}
        assert sample.search("heron", project="-home-dev-pond").hits == ()
        assert sample.damage() == []

    def test_one_folder_of_two_working_directories(self, home: Home, index: Index) -> None:
        """A folder's name stands for several paths: /a/b and /a-b."""
        one, two = Log(session_id(1), common={"cwd": "/a/b"}), Log(session_id(2), first=50, common={"cwd": "/a-b"})
        said = one.user("heron"), two.user("heron")
        written(home, index, one, two, key="-a-b")
        assert uuids(index, "heron", project="/a/b") == [said[0]]
        assert uuids(index, "heron", project="/a-b") == [said[1]]
        assert {*uuids(index, "heron", project="-a-b")} == {*said}

    def test_only_the_live_chain(self, home: Home, index: Index) -> None:
        log = Log()
        root = log.user("start")
        left = log.assistant("heron on a branch that was left", id="msg_1")
        stays = log.assistant("heron stays", id="msg_2", parentUuid=root)
        written(home, index, log)
        assert {*uuids(index, "heron")} == {left, stays}
        assert uuids(index, "heron", live=True) == [stays]
        assert index.search('"that was left"', live=True).reason == "all matches stand outside of the live chain"

    def test_what_only_an_older_version_of_a_file_holds(self, home: Home, index: Index) -> None:
        old, new = Log(first=1), Log(first=50)
        lost = old.user("heron of old")
        kept = new.user("heron anew")
        written(home, index, old)
        written(home, index, new)
        assert uuids(index, "heron") == [kept]
        assert {*uuids(index, "heron", replaced=True)} == {kept, lost}
        assert (index.search_count("heron"), index.search_count("heron", replaced=True)) == (1, 2)


class TestHits:
    def test_a_message_in_several_lines_is_one_hit(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("why")
        log.assistant([{"type": "thinking", "thinking": "a heron maybe"}], id="msg_1", requestId="r")
        log.assistant("the heron", id="msg_1", requestId="r")
        log.assistant([call("toolu_1", command="heron")], id="msg_1", requestId="r")
        written(home, index, log)
        assert [hit.kind for hit in index.search("heron").hits] == ["reply"]
        assert index.search_count("heron") == 1

    def test_copies_in_forks_are_one_hit_that_names_the_others(self, home: Home, index: Index) -> None:
        one = Log(session_id(1))
        said = one.user("heron", timestamp=None)
        fork = Log(session_id(2), first=50)
        fork.lines = [line.replace(session_id(1).encode(), session_id(2).encode()) for line in one.lines]
        sdk = Log(session_id(3), first=90)
        sdk.user("heron", forkedFrom={"sessionId": session_id(1), "messageUuid": said})
        written(home, index, one, fork, sdk)
        (hit,) = index.search("heron").hits
        assert {hit.session_id, *hit.copies} == {session_id(1), session_id(2), session_id(3)}

    def test_a_title_written_many_times_is_one_hit(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("hello")
        for _ in range(3):
            log.title("About herons")
        written(home, index, log)
        (hit,) = index.search("herons").hits
        assert (hit.kind, hit.uuid, hit.title, hit.session_id) == ("title", None, "About herons", session_id(1))

    def test_a_hit_tells_where_it_stands(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("first the question")
        said = log.assistant("there is a heron\nin  the pond", id="msg_1")
        log.title("Birds")
        written(home, index, log)
        (hit,) = index.search("heron pond").hits
        assert (hit.session_id, hit.agent_id, hit.title, hit.uuid, hit.role) == (session_id(1), None, "Birds", said, "assistant")
        assert (hit.project, hit.state, hit.timestamp) == ("/home/dev/project", "live", millis(1)) or hit.project
        assert hit.snippet == "there is a heron in the pond"
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["heron", "pond"]

    def test_a_uuid_that_no_database_takes_is_no_trouble(self, home: Home, index: Index) -> None:
        log = Log()
        log.raw(b'{"type":"user","uuid":"a\\ud83d","message":{"role":"user","content":"needle one"}}')
        assert uuids(written(home, index, log), "needle") == ["a\ufffd"]

    def test_titles_that_came_back_are_counted_once(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("hello")
        for at in range(9):
            log.title(f"Heron {at % 3}")
        written(home, index, log)
        assert (index.search_count("heron"), len(index.search("heron").hits)) == (3, 3)

    def test_messages_around_a_hit(self, home: Home, index: Index) -> None:
        log = Log()
        for words_said in ("one", "two", "heron", "four", "five"):
            log.user(words_said)
        written(home, index, log)
        (hit,) = index.search("heron", context=1).hits
        assert ([said.text for said in hit.before], [said.text for said in hit.after]) == (["two"], ["four"])
        (hit,) = index.search("heron", context=9).hits
        assert [said.text for said in (*hit.before, *hit.after)] == ["one", "two", "four", "five"]

    def test_the_best_of_each_session(self, home: Home, index: Index) -> None:
        logs = [Log(session_id(at), first=at * 100).turns(at, "heron") for at in (1, 2, 3)]
        written(home, index, *logs)
        found = index.search("heron", by_session=True)
        assert {(hit.session_id, hit.matches) for hit in found.hits} == {(session_id(at), 2 * at) for at in (1, 2, 3)}
        assert len(index.search("heron", by_session=True, limit=2).hits) == 2

    def test_words_of_people_come_before_the_noise_of_tools(self, home: Home, index: Index) -> None:
        log = Log()
        noise = log.user([result("toolu_9", "heron and the rest")])
        said = log.user("heron and the rest")
        assert uuids(written(home, index, log), "heron") == [said, noise]

    def test_of_equals_the_newer_comes_first(self, home: Home, index: Index) -> None:
        new, old = Log(session_id(1), start=30 * 24 * 3600), Log(session_id(2), first=50, start=-300 * 24 * 3600)
        said = new.user("heron and the rest"), old.user("heron and the rest")
        assert uuids(written(home, index, new, old), "heron") == [*said]

    def test_a_file_that_is_gone_is_searched_from_what_was_kept(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("heron of the pond")
        written(home, index, log)
        home.path(session_id(1)).unlink()
        index.sync([home.projects])
        assert [(hit.state, hit.snippet) for hit in index.search("heron").hits] == [("gone", "heron of the pond")]


class TestOrder:
    @pytest.fixture
    def many(self, home: Home, index: Index, monkeypatch: pytest.MonkeyPatch) -> Index:
        """Sessions whose times run against the order in which they are imported, in many spans, ranked by few."""
        monkeypatch.setattr(matching, "RANKED", 10)
        monkeypatch.setattr(fulltext, "SPAN", 8)
        monkeypatch.setattr(fulltext, "BATCH", 8)
        for at in range(6):
            log = Log(session_id(at + 1), first=1000 * (at + 1), start=-at * 100)
            for number in range(20):
                log.user(f"heron {number}" if number % 2 else "heron pond")
            written(home, index, log)
        return index

    def test_newest_first_is_by_time_and_exact(self, many: Index) -> None:
        times = [hit.timestamp for hit in many.search("heron", newest=True, limit=200).hits]
        assert len(times) == 120
        assert times == sorted(times, key=lambda time: -(time or 0))
        assert [hit.timestamp for hit in many.search("heron", newest=True, limit=7).hits] == times[:7]
        assert not many.search("heron", newest=True).approximate

    def test_pages_go_on_where_the_one_before_ended(self, many: Index) -> None:
        whole = uuids(many, "heron", newest=True, limit=200)
        pages = [many.search("heron", newest=True, limit=25, offset=at) for at in range(0, 125, 25)]
        assert [hit.uuid for page in pages for hit in page.hits] == whole
        assert [page.more for page in pages] == [True] * 4 + [False]
        assert many.search("heron", newest=True, offset=120).reason == "there are no further hits"

    def test_a_common_word_is_ranked_among_its_newest_lines_and_says_so(self, many: Index) -> None:
        found = many.search("heron", limit=1)
        assert (found.approximate, found.more) == (True, True)
        assert not many.search("heron AND 7", limit=5).approximate

    def test_conditions_that_the_index_cannot_tell_leave_nothing_out(self, many: Index) -> None:
        since, until = millis(-500), millis(-390)
        wanted = {hit.uuid for hit in many.search("heron", limit=200, newest=True).hits if since <= (hit.timestamp or 0) < until}
        assert wanted
        assert {*uuids(many, "heron", since=since, until=until, limit=200)} == wanted
        assert {*uuids(many, "heron", since=since, until=until, limit=200, newest=True)} == wanted

    def test_ranked_pages_hold_each_hit_once(self, many: Index) -> None:
        pages = [many.search("heron", limit=25, offset=at) for at in range(0, 125, 25)]
        assert sorted(hit.uuid or "" for page in pages for hit in page.hits) == sorted(
            hit.uuid or "" for hit in many.search("heron", newest=True, limit=200).hits
        )
        assert [page.more for page in pages] == [True] * 4 + [False]

    def test_a_session_behind_many_lines_of_another_is_found(self, many: Index, home: Home) -> None:
        log = Log(session_id(9), first=9000, start=-10_000)
        log.user("heron of old")
        written(home, many, log, *[Log(session_id(10), first=9100).turns(30, "heron")])
        for newest in (False, True):
            found = many.search("heron", by_session=True, newest=newest, limit=30)
            assert {(hit.session_id, hit.matches) for hit in found.hits} == {
                *((session_id(at), 20) for at in range(1, 7)), (session_id(9), 1), (session_id(10), 60),
            }  # fmt: skip

    def test_pages_are_filled_whatever_is_folded_and_left_out(self, many: Index, home: Home) -> None:
        """Messages of many lines, lines that no chain holds, and lines of an older version, all newer than the rest."""
        wide = Log(session_id(20), first=20_000, start=50_000)
        for at in range(30):
            for _ in range(10):
                wide.assistant([call(f"toolu_{wide.count}", command="pond needle")], id=f"msg_{at}", requestId=str(at))
        written(home, many, wide)
        assert [len(many.search("needle", newest=True, limit=20, offset=at).hits) for at in (0, 20, 40)] == [20, 10, 0]
        log = Log(session_id(21), first=30_000, start=60_000)
        root = log.user("start needles")
        kept = [log.assistant("needles live", id=f"msg_live_{at}") for at in range(20)]
        tip = log.tip
        for at in range(60):
            log.assistant("needles left behind", id=f"msg_left_{at}", parentUuid=root)
        log.assistant("the end", id="msg_end", parentUuid=tip)
        written(home, many, log)
        found = many.search("needles", live=True, newest=True, limit=5)
        assert [hit.uuid for hit in found.hits] == kept[:-6:-1]
        again = Log(session_id(21), first=40_000, start=40_000).turns(3, "needles")
        written(home, many, again)
        assert len(many.search("needles", newest=True, limit=5).hits) == 5
        assert len(many.search("needles", by_session=True).hits) == 1

    def test_a_filter_that_leaves_too_many_out_says_so(self, many: Index, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hits, "_PASSED_OVER", 40)
        log = Log(session_id(22), first=50_000)
        root = log.user("start")
        for at in range(200):
            log.assistant("needles left behind", id=f"msg_{at}", parentUuid=root)
        log.assistant("the end", id="msg_end", parentUuid=root)
        written(home, many, log)
        assert "the newest 40; narrow the search" in (many.search("needles", live=True).reason or "")

    def test_titles_have_the_time_of_their_session(self, many: Index, home: Home) -> None:
        log = Log(session_id(23), first=60_000, start=-1000)
        log.title("Zebra crossing")
        log.turns(30, "heron")
        written(home, many, log)
        (hit,) = many.search("zebra", since=millis(-950)).hits
        assert (hit.kind, hit.timestamp) == ("title", millis(-1000 + 59))
        assert many.search("zebra", since=millis(-900)).hits == ()
        order = [hit.timestamp for hit in many.search("zebra OR heron", newest=True, limit=200).hits]
        assert order == sorted(order, key=lambda time: -(time or 0))
        assert many.search_count("zebra", since=millis(-950)) == 1

    def test_a_rare_project_in_a_shared_folder(self, many: Index, home: Home) -> None:
        rare = Log(session_id(24), first=70_000, start=-5000, common={"cwd": "/code/demo.a"})
        rare.user("heron aside")
        common = Log(session_id(25), first=71_000, common={"cwd": "/code/demo-a"}).turns(40, "heron")
        written(home, many, rare, common, key="-code-demo-a")
        found = many.search("heron", project="/code/demo.a")
        assert [hit.session_id for hit in found.hits] == [session_id(24)]
        assert many.search_count("heron", project="/code/demo.a") == 1


class TestReasons:
    def test_nothing_found_says_why(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("alpha beta")
        log.user("gamma")
        written(home, index, log)
        assert index.search("alpha omega psi").reason == "nowhere stands: omega, psi"
        assert index.search("alpha gamma").reason == "the words stand in no message together"
        assert index.search("alpha", role="assistant").reason == "all matches are filtered out"

    def test_a_query_that_is_no_expression_is_read_as_plain_words(self, home: Home, index: Index) -> None:
        log = Log()
        log.user("alpha AND (beta")
        found = written(home, index, log).search("alpha AND (beta")
        assert found.is_plain and found.reason and found.hits

    def test_what_waits_to_be_indexed_is_told_or_indexed_first(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        home.write(Log().turns(5, "heron"))
        with home.open(fresh=True) as index:
            index.sync([home.projects], texts=False)
            assert len(index.search("heron").hits) == 10  # few: indexed first
            home.write(Log(session_id(2), first=500).turns(5, "heron"))
            monkeypatch.setattr("transcripts.api._FEW_TEXTS", 3)
            found = index.search("heron")
            assert (len(found.hits), found.waiting) == (10, 10)


class TestByIndex:
    def test_no_text_is_scanned(self, home: Home, index: Index) -> None:
        """SQLite's plan of every statement that a search runs: full text by its index, rows by their keys."""
        written(home, index, *[Log(session_id(at), first=at * 100).turns(5, "heron") for at in (1, 2, 3)])
        database = database_of(index)
        with database.read() as connection:
            driver: Any = connection.connection.driver_connection
            statements: list[str] = []
            driver.set_trace_callback(statements.append)
            try:
                for wanted in (Filters(project=KEY, since=1, role="user"), Filters(replaced=True)):
                    for newest in (False, True):
                        found = engine.search(lambda: nullcontext(connection), "heron", wanted, now=NOW, newest=newest, context=1)
                        assert found.hits
            finally:
                driver.set_trace_callback(None)
            statements = [each for each in statements if each.lstrip().startswith("SELECT")]
            plans = [row[3] for statement in statements for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert any(plan.startswith("SCAN search VIRTUAL TABLE INDEX") and "M8" in plan for plan in plans)
        scanned = {plan.split()[1] for plan in plans if plan.startswith("SCAN")}
        assert scanned <= {"search", "wanted", "projects", "tool_calls", "search_spans", "spans"}, plans
