"""Numbers that are known by hand: tokens, costs, calls, days; whatever the files went through."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import CASES, START, Home, Json, Lab, Log, call, database_of, millis, result, session_id, text
from transcripts.api import Index
from transcripts.errors import InvalidRequest
from transcripts.index import prices, zones
from transcripts.index.settings import settle
from transcripts.index.views import VIEWS, _day, _iso
from transcripts.sessions.analytics import BY, Stats, ToolUse, Usage

OPUS, HAIKU, OTHER = "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001", "glm-5"
MILLION = 1_000_000


def rows(index: Index, statement: str, *params: Any) -> list[tuple[Any, ...]]:
    return index.sql(statement, params).rows


def usage(input: int, output: int, *, read: int = 0, five: int = 0, hour: int = 0, **more: Any) -> Json:
    return {
        "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": five + hour,
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}, **more,
    }  # fmt: skip


def reply(log: Log, id: str | None, tokens: Json, *, stop: str | None = "end_turn", model: str = OPUS, **fields: Any) -> str:
    """Add a line of a reply with its usage; the request's id goes with that of the message, unless one is given (None: it has
    none, as from a relay)."""
    message = {"id": id, "role": "assistant", "type": "message", "model": model, "stop_reason": stop, "usage": tokens}
    message["content"] = fields.pop("content", [text("words")])
    request = fields.pop("requestId", f"req_{id}" if id else None)
    known = {} if request is None else {"requestId": request}
    return log.chain("assistant", message=message, **(known | fields))


# -- the corpus ------------------------------------------------------------------------------------------------------------


def first() -> Log:
    """Split lines with growing usage, a reply that was never finished, calls, an error of the API and an interruption."""
    log = Log(session_id(1), first=100)
    log.user("what is slow?")
    for output, stop in ((2, None), (2, None), (412, "tool_use")):
        blocks = [call(f"toolu_{output}", command="LANG=C grep -r slow ."), call("toolu_r", "Read", file_path="/a.py")]
        reply(log, "msg_1", usage(3, output, read=20_000, five=400, hour=600), stop=stop, content=blocks)
    log.user([result("toolu_412", "done"), result("toolu_r", "no such file", is_error=True)])
    reply(log, "msg_2", usage(10, 5), stop=None)
    log.chain("system", subtype="api_error", error={"formatted": "529 Overloaded"}, retryAttempt=1)
    reply(log, "syn", usage(0, 0), model="<synthetic>", isApiErrorMessage=True, content=[text("API Error: 529")])
    log.user("[Request interrupted by user]")
    log.about("cost-state", totalCostUSD=0.25, hasUnknownModelCost=False)
    return log


def second() -> Log:
    """A fork of the first as the client makes it: all lines again, and a reply of its own."""
    log = Log(session_id(2), first=200, start=1000)
    log.lines += [line.replace(session_id(1).encode(), session_id(2).encode()) for line in first().lines[:-1]]
    log.user("and now?")
    reply(log, "msg_3", usage(1, 30), model=HAIKU)
    return log


def relays() -> list[Log]:
    """Relays that give every reply the same id and no request's, one of them over two lines; and a fork of one as the SDK
    makes it."""
    one, other, fork = (Log(session_id(at), first=at * 100, start=at * 1000) for at in (4, 5, 6))
    for output, stop in ((2, None), (7, "end_turn")):
        line = reply(one, "chat", usage(100, output), stop=stop, model=OTHER, requestId=None)
        origin = {"sessionId": session_id(4), "messageUuid": line}
        told = {"forkedFrom": origin, "timestamp": json.loads(one.lines[-1])["timestamp"]}
        reply(fork, "chat", usage(100, output), stop=stop, model=OTHER, requestId=None, **told)
    reply(other, "chat", usage(200, 8), model=OTHER, requestId=None)
    return [one, other, fork]


def agent() -> Log:
    log = Log(session_id(1), first=700, start=7000, common={"isSidechain": True, "agentId": "a1"})
    log.user("look at it")
    told: Json = {
        "output_tokens_details": {"thinking_tokens": 40},
        "server_tool_use": {"web_search_requests": 2},
        "speed": "standard",
    }
    reply(log, "msg_5", usage(50, 44, **told))
    return log


def inside() -> Log:
    """An old transcript with the sub-agent's lines in it."""
    log = Log(session_id(7), first=800, start=8000)
    log.user("ask another")
    reply(log, "msg_6", usage(1, 2))
    reply(log, "msg_7", usage(2, 21), isSidechain=True)
    return log


def rewritten() -> tuple[Log, Log]:
    before, after = (Log(session_id(8), first=900, start=9000) for _ in range(2))
    reply(before, "msg_8", usage(5, 100))
    reply(before, "msg_9", usage(5, 50))
    reply(after, "msg_8", usage(5, 100))
    reply(after, "msg_10", usage(5, 9))
    return before, after


def deleted() -> Log:
    """One of the next day."""
    log = Log(session_id(9), first=1000, start=100_000)
    reply(log, "msg_11", usage(6, 11), model=HAIKU)
    return log


def write_all(home: Home) -> None:
    """The whole corpus as it is in the end, but for the file that is rewritten and the one that is deleted."""
    for log in (first(), second(), *relays(), inside()):
        home.write(log)
    home.write(first().data, session_id(3), key="-copy")
    home.write(agent().data, f"{session_id(1)}/subagents/agent-a1.jsonl")


def build(home: Home) -> None:
    write_all(home)
    before, after = rewritten()
    home.write(before)
    gone = home.write(deleted())
    home.sync()
    home.write(after)
    gone.unlink()
    home.sync()


REPLIES = 12  # msg_1, 2, 3, 5 to 11, and two of the relays; and one that is synthetic
INPUT = 3 + 10 + 1 + 50 + 1 + 2 + 5 + 5 + 5 + 6 + 100 + 200
OUTPUT = 412 + 5 + 30 + 44 + 2 + 21 + 100 + 50 + 9 + 11 + 7 + 8
IN_OPUS, OUT_OPUS = 3 + 10 + 50 + 1 + 2 + 15, 412 + 5 + 44 + 2 + 21 + 159
IN_HAIKU, OUT_HAIKU = 1 + 6, 30 + 11
COST_OPUS = (IN_OPUS * 5 + OUT_OPUS * 25 + 20_000 * 0.5 + 400 * 6.25 + 600 * 10) / MILLION + 2 * 0.01
COST_HAIKU = (IN_HAIKU * 1 + OUT_HAIKU * 5) / MILLION
UNPRICED = 107 + 208


def told(index: Index, by: str, **filters: Any) -> dict[str | None, Any]:
    return {row.name: row for row in index.stats(by, **filters).rows}


def of_usage(stats: Stats) -> Usage:
    assert isinstance(stats.total, Usage)
    return stats.total


@pytest.fixture
def index(home: Home) -> Any:
    build(home)
    with home.open() as index:
        yield index


class TestTotals:
    def test_every_kind_of_token_is_exact(self, index: Index) -> None:
        total = of_usage(index.stats())
        assert total.cost_usd == pytest.approx(COST_OPUS + COST_HAIKU)
        assert total == Usage(
            name=None, responses=REPLIES + 1, input_tokens=INPUT, output_tokens=OUTPUT, thinking_tokens=40,
            cache_read_tokens=20_000, cache_write_5m_tokens=400, cache_write_1h_tokens=600,
            total_tokens=INPUT + OUTPUT + 21_000, web_searches=2, partial_responses=1,
            cost_usd=total.cost_usd, unpriced_tokens=UNPRICED,
        )  # fmt: skip

    @pytest.mark.parametrize("by", [by for by in BY if by != "tool"])
    def test_the_rows_of_each_question_add_up_to_the_same_total(self, index: Index, by: str) -> None:
        stats = index.stats(by)
        total = of_usage(stats)
        whole = of_usage(index.stats())
        for name in ("responses", "input_tokens", "output_tokens", "total_tokens", "unpriced_tokens", "partial_responses"):
            assert sum(getattr(row, name) for row in stats.rows) == getattr(total, name) == getattr(whole, name)
        assert sum(row.cost_usd or 0 for row in stats.rows if isinstance(row, Usage)) == pytest.approx(whole.cost_usd)

    def test_by_model(self, index: Index) -> None:
        found = told(index, "model")
        assert {name: (row.responses, row.input_tokens, row.output_tokens) for name, row in found.items()} == {
            OPUS: (8, IN_OPUS, OUT_OPUS), HAIKU: (2, IN_HAIKU, OUT_HAIKU), OTHER: (2, 300, 15), "<synthetic>": (1, 0, 0),
        }  # fmt: skip
        assert found[OPUS].cost_usd == pytest.approx(COST_OPUS)
        assert (found[OTHER].cost_usd, found[OTHER].unpriced_tokens) == (None, UNPRICED)
        assert (found["<synthetic>"].cost_usd, found["<synthetic>"].unpriced_tokens) == (0, 0)

    def test_by_day(self, index: Index) -> None:
        days = {"2026-03-01": (12, INPUT - 6, OUTPUT - 11, 1000, 20_000), "2026-03-02": (1, 6, 11, 0, 0)}
        assert {
            name: (row.responses, row.input_tokens, row.output_tokens, row.cache_write_5m_tokens + row.cache_write_1h_tokens,
                   row.cache_read_tokens)
            for name, row in told(index, "day").items()
        } == days  # fmt: skip
        columns = "responses, input_tokens, output_tokens, cache_write_5m_tokens + cache_write_1h_tokens, cache_read_tokens"
        found = rows(index, f"SELECT day, {columns} FROM v_daily_usage")
        assert {day: tuple(numbers) for day, *numbers in found} == days

    def test_by_session_each_reply_is_of_the_session_that_had_it_first(self, index: Index) -> None:
        found = told(index, "session")
        assert {name: row.output_tokens for name, row in found.items()} == {
            session_id(1): 412 + 5 + 44,  # with its sub-agent
            session_id(2): 30,
            session_id(4): 7,
            session_id(5): 8,
            session_id(7): 2 + 21,
            session_id(8): 100 + 50 + 9,
            session_id(9): 11,
        }
        assert found[session_id(1)].client_cost_usd == 0.25
        assert found[session_id(1)].title == "what is slow?"

    def test_the_views_say_the_same(self, index: Index) -> None:
        for view in ("v_responses", "v_daily_usage", "v_models", "v_sessions"):
            (found,) = rows(index, f"SELECT sum(output_tokens), sum(total_tokens), sum(cost_usd) FROM {view}")
            assert found == (OUTPUT, INPUT + OUTPUT + 21_000, pytest.approx(COST_OPUS + COST_HAIKU)), view
        assert rows(index, "SELECT sum(output_tokens) FROM v_responses WHERE is_sidechain") == [(44 + 21,)]
        assert rows(index, "SELECT session_id, agent_id, responses, output_tokens, thinking_tokens FROM v_subagents") == [
            (session_id(1), "a1", 1, 44, 40)
        ]
        assert rows(index, "SELECT client_cost_usd, state FROM v_sessions WHERE session_id = ?", session_id(1)) == [
            (0.25, "live")
        ]
        assert rows(index, "SELECT state, output_tokens FROM v_sessions WHERE session_id = ?", session_id(9)) == [("gone", 11)]

    def test_nothing_changes_when_it_is_derived_anew(self, index: Index) -> None:
        before = {view: sorted(rows(index, f"SELECT * FROM {view}"), key=repr) for view in ("v_responses", "v_models", "v_tools")}
        index.rebuild()
        assert before == {view: sorted(rows(index, f"SELECT * FROM {view}"), key=repr) for view in before}

    @settings(max_examples=8)
    @given(seed=st.randoms(use_true_random=False))
    def test_the_order_of_import_changes_nothing(self, lab: Lab, seed: Random) -> None:
        home = lab.home("order")
        write_all(home)
        paths = sorted(home.projects.rglob("*.jsonl"))
        seed.shuffle(paths)
        for path in paths:
            home.sync(path)
        with home.open() as index:
            answers = {by: list(index.stats(by).rows) for by in BY}
        again = lab.home("at once")
        write_all(again)
        again.sync()
        with again.open() as index:
            assert answers == {by: list(index.stats(by).rows) for by in answers}


class TestFilters:
    def test_a_time_takes_what_was_said_from_then_on_and_before(self, index: Index) -> None:
        whole = index.stats("model", since=millis(7000), until=millis(9000))
        assert of_usage(whole).output_tokens == 44 + 2 + 21
        assert index.stats("tool", since=millis(7000)).rows == ()

    def test_a_project_is_a_part_of_its_path_or_its_folder(self, index: Index) -> None:
        assert of_usage(index.stats(project="dev/sh")).output_tokens == OUTPUT
        assert of_usage(index.stats(project="-home-dev-shop")).output_tokens == OUTPUT
        assert of_usage(index.stats(project="100%")).responses == 0
        assert of_usage(index.stats(project="nowhere")).cost_usd == 0

    def test_there_is_nothing_by_what_is_not_known(self, index: Index) -> None:
        with pytest.raises(InvalidRequest, match="nothing by 'mood'; there is: day, week"):
            index.stats("mood")


class TestTools:
    def test_a_call_counts_once_however_many_files_hold_it(self, index: Index) -> None:
        assert index.stats("tool").rows == (
            ToolUse("Bash", 2, 0, 1, 1000, 1000, 1000),  # toolu_2 stands twice in a file, and was not answered
            ToolUse("Read", 1, 1, 0, 1000, 1000, 1000),
        )
        assert rows(index, "SELECT * FROM v_tools ORDER BY name") == [
            ("Bash", 2, 0, 1, 1000, 1000, 1000),
            ("Read", 1, 1, 0, 1000, 1000, 1000),
        ]
        assert rows(index, "SELECT program, calls, errors FROM v_commands") == [("grep", 2, 0)]
        assert rows(index, "SELECT path, reads, edits, writes, errors FROM v_files") == [("/a.py", 1, 0, 0, 1)]

    @settings(max_examples=30)
    @given(durations=st.lists(st.integers(-40, 40) | st.integers(0, 10**10) | st.none(), max_size=40))
    def test_the_view_and_the_question_agree_on_half_and_95_of_100(self, lab: Lab, durations: list[int | None]) -> None:
        home = lab.home("durations")
        log = Log()
        for at, duration in enumerate(durations):
            log.assistant([call(f"t{at}", "Edit", file_path=f"/{at % 3}")], timestamp=iso_of(0))
            if duration is not None:
                log.user([result(f"t{at}")], timestamp=iso_of(duration))
        home.write(log)
        home.sync()
        with home.open() as index:
            found = index.stats("tool").rows
            assert [ToolUse(*row) for row in rows(index, "SELECT * FROM v_tools")] == list(found)
            for row in found:
                assert isinstance(row, ToolUse)
                known = sorted(duration for duration in durations if duration is not None)
                assert row.median_duration == (known[(len(known) - 1) // 2] if known else None)
                assert row.p95_duration is None or 20 * sum(one <= row.p95_duration for one in known) >= 19 * len(known)


def iso_of(milliseconds: int) -> str:
    return (START + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TestOtherViews:
    def test_errors_are_told_once_each(self, index: Index) -> None:
        assert rows(index, "SELECT kind, name, detail, session_id FROM v_errors ORDER BY failed_at") == [
            ("tool", "Read", "/a.py", session_id(1)),
            ("retry", None, "529 Overloaded", session_id(1)),
            ("api", None, "API Error: 529", session_id(1)),
            ("interruption", None, "[Request interrupted by user]", session_id(1)),
        ]

    def test_prompts_are_told_once_each_with_their_time(self, index: Index) -> None:
        assert rows(index, "SELECT text, session_id, day, prompted_at_iso FROM v_prompts ORDER BY prompted_at") == [
            ("what is slow?", session_id(1), "2026-03-01", "2026-03-01T10:00:00Z"),
            ("and now?", session_id(2), "2026-03-01", "2026-03-01T10:16:40Z"),
            ("ask another", session_id(7), "2026-03-01", "2026-03-01T12:13:20Z"),
        ]

    def test_compactions_are_told_once_each(self, home: Home) -> None:
        log = Log()
        log.user("go on")
        about = {"trigger": "auto", "preTokens": 150_501, "postTokens": 2658, "durationMs": 42}
        log.chain("system", subtype="compact_boundary", compactMetadata=about)
        home.write(log)
        home.write(log.data, session_id(2))
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT trigger, pre_tokens, post_tokens, duration, session_id, day FROM v_compactions") == [
                ("auto", 150_501, 2658, 42, session_id(1), "2026-03-01")
            ]

    @pytest.mark.parametrize("view", VIEWS)
    def test_every_view_answers_on_all_evidence_and_times_have_their_text(self, home: Home, view: str) -> None:
        with home.open() as index:
            index.sync([CASES / "genuine", *CASES.glob("faults/*/projects")])
            result = index.sql(f"SELECT * FROM {view}")
        assert result.rows
        for row in result.rows:
            values = dict(zip(result.columns, row, strict=True))
            for name, value in values.items():
                if name.endswith("_at_iso"):
                    moment = values[name.removesuffix("_iso")]
                    known = None if moment is None else datetime.fromtimestamp(moment // 1000, UTC)
                    within = known is not None and zones.FIRST_YEAR <= known.year < zones.LAST_YEAR
                    assert value == (f"{known:%Y-%m-%dT%H:%M:%SZ}" if within else None)

    def test_the_record_behind_a_row_is_at_hand(self, index: Index) -> None:
        statement = "SELECT json_extract(entry_json(entry), '$.message.content') FROM v_prompts ORDER BY prompted_at LIMIT 1"
        assert rows(index, statement) == [("what is slow?",)]
        assert rows(index, "SELECT entry_json(-1), entry_json(NULL), entry_json('x')") == [(None, None, None)]


class TestRelays:
    def test_replies_of_one_id_in_one_session_are_several(self, home: Home) -> None:
        log = Log()
        for prompt, output in ((100, 7), (200, 9), (300, 5)):
            log.user("go on")
            reply(log, "chat", usage(prompt, output), model=OTHER, requestId=None)
        home.write(log)
        home.sync()
        with home.open() as index:
            total = of_usage(index.stats())
        assert (total.responses, total.input_tokens, total.output_tokens) == (3, 600, 21)

    def test_a_reply_with_results_between_its_lines_is_one(self, home: Home) -> None:
        log = Log()
        log.user("go on")
        for key, output, stop in (("t1", 3, None), ("t2", 9, "tool_use")):
            reply(log, "chat", usage(100, output), stop=stop, model=OTHER, requestId=None, content=[call(key)])
            log.user([result(key)])
        home.write(log)
        home.sync()
        with home.open() as index:
            total = of_usage(index.stats())
        assert (total.responses, total.input_tokens, total.output_tokens) == (1, 100, 9)

    @pytest.mark.parametrize(
        ("told", "between", "expected"),  # prompt, output, stop reason of each line
        [
            ([(100, 7, "tool_use"), (200, 9, None), (200, 9, "end_turn")], "result", (2, 300, 16)),
            ([(90, 1, None), (100, 9, "tool_use")], "result", (1, 100, 9)),  # the size was a guess at first
            ([(90, 1, None), (100, 9, "tool_use")], "prompt", (2, 190, 10)),
            ([(90, 1, None), (100, 9, None)], "result", (2, 190, 10)),
            ([(0, 1, None), (100, 9, None)], "prompt", (1, 100, 9)),  # it was not told at first
            ([(100, 7, "end_turn"), (0, 0, None), (200, 9, "end_turn")], "prompt", (2, 300, 16)),
            ([(100, 7, "tool_use"), (100, 7, "tool_use")], "prompt", (1, 100, 7)),
            ([(100, 7, "tool_use"), (200, 9, "tool_use")], "nothing", (1, 200, 9)),
        ],
    )
    @pytest.mark.parametrize("sliced", [False, True])
    def test_a_line_begins_a_reply_by_the_size_of_its_prompt_and_what_lies_between(
        self, home: Home, told: list[tuple[int, int, str | None]], between: str, expected: tuple[int, int, int], sliced: bool
    ) -> None:
        log = Log()
        for prompt, output, stop in told:
            if between != "nothing":
                log.user("go on" if between == "prompt" else [result("t1")])
            if sliced:
                home.write(log)
                home.sync()
            reply(log, "chat", usage(prompt, output), stop=stop, model=OTHER, requestId=None)
            if sliced:
                home.write(log)
                home.sync()
        home.write(log)
        home.sync()
        with home.open() as index:
            total = of_usage(index.stats())
        assert (total.responses, total.input_tokens, total.output_tokens) == expected

    def test_replies_of_one_id_count_once_over_forks(self, home: Home) -> None:
        log, fork = Log(), Log(session_id(2), first=50)
        for prompt, output in ((100, 7), (200, 9), (300, 5)):
            for each in (log, fork):
                each.user("go on")
                origin: Json = {"forkedFrom": {"sessionId": log.session, "messageUuid": log.tip}} if each is fork else {}
                reply(each, "chat", usage(prompt, output), model=OTHER, requestId=None, **origin)
        home.write(log)
        home.write(fork)
        home.sync()
        with home.open() as index:
            total = of_usage(index.stats())
        assert (total.responses, total.input_tokens, total.output_tokens) == (3, 600, 21)


class TestFaultCases:
    def test_one_message_over_several_lines(self, home: Home) -> None:
        with home.open() as index:
            index.sync([CASES / "faults" / "usage-split-message" / "projects"])
            total = of_usage(index.stats())
        told = (total.output_tokens, total.input_tokens, total.cache_write_5m_tokens + total.cache_write_1h_tokens)
        assert (*told, total.cache_read_tokens) == (482, 6, 4000, 40_000)

    def test_sub_agents_are_of_the_session_that_started_them(self, home: Home) -> None:
        with home.open() as index:
            index.sync([CASES / "faults" / "subagents" / "projects"])
            found = {str(name)[:8]: row.output_tokens for name, row in told(index, "session").items()}
            aside = "SELECT session_id, sum(output_tokens) FROM v_responses WHERE NOT is_sidechain GROUP BY 1 ORDER BY 1"
            assert [output for _session, output in rows(index, aside)] == [15, 14]
        assert found == {"00000017": 92, "0000001a": 35}

    def test_only_exact_names_have_a_price(self, home: Home) -> None:
        with home.open() as index:
            index.sync([CASES / "faults" / "cost-tables" / "projects"])
            found = told(index, "model")
        unpriced = {name for name, row in found.items() if row.cost_usd is None}
        assert unpriced == {"claude-opus-9-9", "glm-5", "us.anthropic.claude-sonnet-4-5-v1:0", "claude-opus-4"} & set(found)
        assert all(row.unpriced_tokens == row.total_tokens for row in found.values() if row.cost_usd is None)
        assert found["<synthetic>"].cost_usd == 0


class TestDays:
    @pytest.mark.parametrize(
        ("zone", "days"),
        [
            ("UTC", {"2026-03-23": 100, "2026-03-29": 200}),
            ("Asia/Seoul", {"2026-03-24": 100, "2026-03-29": 200}),
            ("America/Los_Angeles", {"2026-03-23": 100, "2026-03-28": 200}),
            ("Europe/Berlin", {"2026-03-23": 100, "2026-03-29": 200}),
        ],
    )
    def test_a_day_is_one_of_the_reader(self, home: Home, zone: str, days: dict[str, int]) -> None:
        with Index.open(home.db, fresh=False, zone=zone) as index:
            index.sync([CASES / "faults" / "timezone-days" / "projects"])
            assert {row.name: row.output_tokens for row in index.stats("day").rows if isinstance(row, Usage)} == days
            assert dict(rows(index, "SELECT day, output_tokens FROM v_daily_usage")) == days
            assert index.stats().settings.zone == zone

    def test_another_zone_gives_other_days_of_the_same_database(self, home: Home) -> None:
        self.test_a_day_is_one_of_the_reader(home, "Asia/Seoul", {"2026-03-24": 100, "2026-03-29": 200})
        self.test_a_day_is_one_of_the_reader(home, "UTC", {"2026-03-23": 100, "2026-03-29": 200})
        with Index.open(home.db, fresh=False) as index:  # the one it had last
            assert index.stats().settings.zone == "UTC"

    def test_weeks_and_months_are_made_of_days(self, home: Home) -> None:
        log = Log()
        for at, moment in enumerate(("2025-12-28T12", "2025-12-29T12", "2026-01-01T12", "2026-01-05T12")):
            reply(log, f"msg_{at}", usage(1, 10**at), timestamp=f"{moment}:00:00.000Z")
        reply(log, "msg_x", usage(1, 10_000), timestamp=None)
        home.write(log)
        home.sync()
        with home.open() as index:
            weeks = [(row.name, row.output_tokens) for row in index.stats("week").rows if isinstance(row, Usage)]
            months = [(row.name, row.output_tokens) for row in index.stats("month").rows if isinstance(row, Usage)]
            assert dict(rows(index, "SELECT coalesce(day, '?'), output_tokens FROM v_daily_usage"))["?"] == 10_000
        assert weeks == [(None, 10_000), ("2025-W52", 1), ("2026-W01", 110), ("2026-W02", 1000)]
        assert months == [(None, 10_000), ("2025-12", 11), ("2026-01", 1100)]

    @settings(max_examples=40)
    @given(
        zone=st.sampled_from(
            ["UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kolkata", "Australia/Lord_Howe",
             "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Africa/Casablanca", "America/Sao_Paulo"]
        ),
        moments=st.lists(st.integers(1_577_923_200_000, 2_524_521_600_000), min_size=1, max_size=20),
        near=st.lists(st.integers(-7200, 7200), max_size=10),
    )  # fmt: skip
    def test_the_day_of_any_moment_is_that_of_the_zone(self, lab: Lab, zone: str, moments: list[int], near: list[int]) -> None:
        known = zones.named(zone)
        changes = [(begin + seconds) * 1000 for begin, _offset in known.offsets[1:12] for seconds in near]
        home = lab.home("days")
        log = Log()
        for at, moment in enumerate(moments + changes):
            reply(log, f"msg_{at}", usage(1, 1), timestamp=f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
        home.write(log)
        home.sync()
        days = Counter(f"{datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)):%Y-%m-%d}" for moment in moments + changes)
        with home.open() as index:
            settle(database_of(index), known, None)
            assert dict(rows(index, "SELECT day, responses FROM v_daily_usage")) == days
            for moment in moments + changes:
                ((day, iso),) = rows(index, f"SELECT {_day('?1')}, {_iso('?1')}", moment)
                assert day == f"{datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)):%Y-%m-%d}"
                assert iso == f"{datetime.fromtimestamp(moment // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def test_an_hour_that_comes_twice_is_of_one_day(self, home: Home) -> None:
        log = Log()
        for at, moment in enumerate(("2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T22:59", "2026-10-25T23:00")):
            reply(log, f"msg_{at}", usage(1, 10**at), timestamp=f"{moment}:00.000Z")
        home.write(log)
        with Index.open(home.db, fresh=False, zone="Europe/Berlin") as index:
            index.sync([home.projects])
            assert dict(rows(index, "SELECT day, output_tokens FROM v_daily_usage")) == {"2026-10-25": 111, "2026-10-26": 1000}

    def test_a_zone_that_is_not_known_is_told(self, home: Home) -> None:
        with (
            Index.open(home.db, zone="Mars/Olympus") as index,
            pytest.raises(InvalidRequest, match="no time zone 'Mars/Olympus'"),
        ):
            index.stats()


class TestPrices:
    def test_those_that_are_shipped_are_exact_and_dated(self) -> None:
        shipped = prices.shipped()
        assert shipped.source == "shipped"
        assert datetime.fromisoformat(shipped.date).year >= 2026
        for model, _speed, begin, above, end, up_to, taken, made, read, five, hour, search in shipped.rows:
            assert begin < end and above < up_to
            if model != "<synthetic>":
                assert 0 < read < taken < five < hour and taken < made and search == 10_000, model

    def test_a_file_takes_their_place_until_others_are_given(self, home: Home, tmp_path: Path) -> None:
        build(home)
        table = {
            "date": "2026-01-01",
            "prices": [{"models": [OTHER], "input": 1, "output": 2, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}],
        }
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(table))
        with home.open() as index:
            mine = index.stats("model", prices_from=path)
            assert of_usage(mine).cost_usd == pytest.approx((300 * 1 + 15 * 2) / MILLION)
            assert (mine.settings.prices, mine.settings.prices_date) == (str(path), "2026-01-01")
            assert index.stats("model") == mine
            assert rows(index, "SELECT sum(cost_usd) FROM v_models") == [(pytest.approx(330 / MILLION),)]
            assert of_usage(index.stats(prices_from="shipped")).cost_usd == pytest.approx(COST_OPUS + COST_HAIKU)

    @pytest.mark.parametrize(
        ("speed", "tier", "day", "tokens", "cost"),
        [
            (None, None, "2026-05-31", 100, 100.0),
            ("standard", "standard", "2026-05-31", 101, 202.0),  # a longer prompt
            ("standard", "standard", "2026-06-01", 101, 303.0),  # another price from that day on
            ("fast", None, "2026-06-01", 1, 10.0),
            ("fast", None, "2026-06-01", 101, 1010.0),
            ("slow", None, "2026-06-01", 1, None),
            ("standard", "batch", "2026-06-01", 1, None),
        ],
    )
    def test_the_price_is_that_of_the_day_the_speed_and_the_prompt(
        self, home: Home, tmp_path: Path, speed: str | None, tier: str | None, day: str, tokens: int, cost: float | None
    ) -> None:
        log = Log()
        reply(log, "msg", usage(tokens, 0, speed=speed, service_tier=tier), model="m", timestamp=f"{day}T00:00:00.000Z")
        home.write(log)
        home.sync()
        rest = {"output": 0, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}
        given: list[Json] = [
            {"prompt_up_to": 100, "input": MILLION},
            {"prompt_above": 100, "until": "2026-06-01", "input": 2 * MILLION},
            {"prompt_above": 100, "from": "2026-06-01", "input": 3 * MILLION},
            {"speed": "fast", "input": 10 * MILLION},
        ]
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({"date": "2026-01-01", "prices": [{"models": ["m"], **rest, **one} for one in given]}))
        with home.open() as index:
            assert of_usage(index.stats(prices_from=path)).cost_usd == (None if cost is None else pytest.approx(cost))

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (None, "cannot be read"),
            ("{", "is no table of prices"),
            ("[]", "is no table of prices"),
            ('{"date": "2026-01-01", "prices": [{"models": ["m"]}]}', "this price cannot be read"),
            ('{"date": "soon", "prices": []}', "is no table of prices"),
        ],
    )
    def test_a_file_that_is_no_table_of_prices_is_told(self, home: Home, tmp_path: Path, content: str | None, told: str) -> None:
        if content is not None:
            (tmp_path / "mine.json").write_text(content)
        with home.open() as index, pytest.raises(InvalidRequest, match=told):
            index.stats(prices_from=tmp_path / "mine.json")

    def test_two_prices_for_the_same_are_refused(self, home: Home, tmp_path: Path) -> None:
        one = {"models": ["m"], "input": 1, "output": 2, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}
        (tmp_path / "mine.json").write_text(json.dumps({"date": "2026-01-01", "prices": [one, one]}))
        with home.open() as index, pytest.raises(InvalidRequest, match="m has two prices"):
            index.stats(prices_from=tmp_path / "mine.json")


class TestRows:
    @pytest.mark.parametrize(
        ("command", "program"),
        [
            ("git status", "git"),
            ("  \n # a word\nmake -j2", "make"),
            ("A=1 B='x y' C=\"z\" python3 -c 1", "python3"),
            ("(cd /tmp && ls)", None),
            ("ls;pwd", "ls"),
            ("x=1", "x=1"),
            (" " * 900, None),
            ("", None),
        ],
    )
    def test_the_program_is_the_first_word_of_a_command(self, home: Home, command: str, program: str | None) -> None:
        log = Log()
        log.assistant([call("t", command=command), call("u", "Other", command="git")])
        home.write(log)
        home.sync()
        with home.open() as index:
            assert rows(index, "SELECT tool_use_id, program FROM tool_calls ORDER BY 1") == [("t", program), ("u", None)]
