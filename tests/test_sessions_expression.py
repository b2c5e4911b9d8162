"""How queries are read: never an error, and what they find in an FTS5 table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transcripts.index.words import indexable
from transcripts.sessions.expression import COLUMNS, Term, read

FAULTS = Path(__file__).parent / "cases" / "faults"
QUERIES = (FAULTS / "fts-syntax" / "queries.txt").read_text().split("\n")[:-1]
FOUND, EMPTY = QUERIES[:24], QUERIES[24:]


class Table:
    """A table like the index's, kept in memory."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute(
            f"CREATE VIRTUAL TABLE t USING fts5({', '.join(COLUMNS)}, scope, tokenize = 'unicode61 remove_diacritics 2')"
        )

    def fill(self, *documents: str, column: str = "prompt") -> None:
        self._database.execute("DELETE FROM t")
        rows = ((row, indexable(text)) for row, text in enumerate(documents))
        self._database.executemany(f"INSERT INTO t (rowid, {column}) VALUES (?, ?)", rows)

    def find(self, match: str | None) -> list[int]:
        if match is None:
            return []
        return [row for (row,) in self._database.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rowid", (match,))]


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def said(case: str) -> Iterator[str]:
    for file in sorted((FAULTS / case).rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            content = json.loads(line)["message"]["content"]
            yield content if isinstance(content, str) else content[0]["text"]


def shown(query: str) -> list[str]:
    return [term.shown for term in read(query).terms]


class TestFaultCases:
    def test_there_are_thirty_five_queries(self) -> None:
        assert (len(FOUND), len(EMPTY)) == (24, 11)

    @pytest.mark.parametrize("query", FOUND)
    def test_each_of_the_first_finds_the_session(self, table: Table, query: str) -> None:
        table.fill(*said("fts-syntax"))
        assert table.find(read(query).match) != []

    @pytest.mark.parametrize("query", EMPTY)
    def test_each_of_the_last_has_a_reason_and_finds_nothing(self, query: str) -> None:
        found = read(query)
        assert (found.match, found.terms) == (None, ())
        assert found.reason

    @pytest.mark.parametrize(
        ("query", "rows"),
        [
            *(("悬空引用", [0]), ("itgc", [0]), ("评审会议", [1]), ("天気はどう", [2]), ("백트래킹", [3])),
            *(("空引", [0]), ("会", [1]), ("京", [2]), ("깊이", [3]), ("后50", [0]), ("引空", [])),
        ],
    )
    def test_words_without_spaces_are_found_at_any_length(self, table: Table, query: str, rows: list[int]) -> None:
        table.fill(*said("cjk-search"))
        assert table.find(read(query).match) == rows


class TestLanguage:
    @pytest.mark.parametrize(
        ("query", "reading"),
        [
            ("parse config", "parse AND config"),
            ('"parse config"', '"parse config"'),
            ("pars*", "pars*"),
            ('"parse conf*"', '"parse conf*"'),
            ('"parse conf"*', '"parse conf*"'),
            ("a OR b c", "a OR (b AND c)"),
            ("(a OR b) c", "(a OR b) AND c"),
            ("parse-config AND (retry OR again*) AND NOT test", '"parse config" AND (retry OR again*) AND NOT test'),
            ("a NOT b", "a AND NOT b"),
            ("a NOT (b c)", "a AND NOT (b AND c)"),
            ("a NOT (b OR c) d", "a AND d AND NOT (b OR c)"),
            ("a NOT b NOT c OR d", "(a AND NOT b AND NOT c) OR d"),
            ("prompt:x tool:yes*", "prompt:x AND tool:yes*"),
            ('reply:"x y"', 'reply:"x y"'),
            ("result:(x OR y z)", "result:x OR (result:y AND result:z)"),
            ("foo.bar() std::vector --no-verify .NET", '"foo bar" AND "std vector" AND "no verify" AND NET'),
            ("(foo.bar() OR baz)", '"foo bar" OR baz'),
            ("http://x/y?z=1 user@host #tag [bracket] 100%", '"http x y z 1" AND "user host" AND tag AND bracket AND 100'),
            ("error:timeout scope:x tool: Tool:x", '"error timeout" AND "scope x" AND tool AND "Tool x"'),
            ("C++", "C++"),
            ("C++17", '"C 17" AND C++'),
            ("modern c#", "modern AND c#"),
            ("prompt:C++", "prompt:C++"),
            ("悬空引用 gen后", '悬空引用 AND "gen 后"'),
            ("❤️", "❤"),
            ('NEAR(a b) ^c {d} +e "f"', '"NEAR a" AND b AND c AND d AND e AND f'),
            ("a - b", "a AND b"),
            ("a OR -", "a"),
            ("and or not", "and AND or AND not"),
            ('5" screen', "5 AND screen"),
            ("*.py src/*", "py AND src"),
        ],
    )
    def test_readings(self, query: str, reading: str) -> None:
        found = read(query)
        assert (found.reading, found.is_plain, found.reason) == (reading, False, None)

    @pytest.mark.parametrize(
        ("query", "reading"),
        [
            ("AND", '"AND"'),
            ("a AND", 'a AND "AND"'),
            ("OR a", '"OR" AND a'),
            ("a OR OR b", 'a AND "OR" AND "OR" AND b'),
            ("NOT a", '"NOT" AND a'),
            ("a OR NOT b", 'a AND "OR" AND "NOT" AND b'),
            ("(a", "a"),
            ('(a "b c"', "a AND b AND c"),
            ("((a) b", "a AND b"),
            ("(a))", "a"),
            ("prompt:(tool:x)", '"prompt tool x"'),
            ("() NOT a", '"NOT" AND a'),
            ("(" * 40 + "a" + ")" * 40, "a"),
        ],
    )
    def test_what_is_no_expression_is_taken_as_plain_words_and_says_why(self, query: str, reading: str) -> None:
        found = read(query)
        assert (found.reading, found.is_plain) == (reading, True)
        assert found.reason is not None and "plain words" in found.reason

    @pytest.mark.parametrize(
        "query", ["", "  \n", "\x00", "...", "( )", '"', 'a "b', 'prompt:"x', "prompt:-", "│", "🏽", "\U0010ff2b"]
    )
    def test_where_there_is_nothing_to_look_for_it_says_why(self, query: str) -> None:
        found = read(query)
        assert (found.text, found.match, found.reading, found.is_plain, found.terms) == (query, None, "", False, ())
        assert found.reason

    def test_terms_are_what_a_hit_may_hold(self) -> None:
        assert shown('a prompt:bee* (c OR "d e") NOT f a') == ["a", "prompt:bee*", "c", '"d e"']
        assert read("Café*").terms == (Term("Café*", ("cafe",), True, None, '"Café" *'),)
        assert read('tool:"rm -rf"').terms == (Term('tool:"rm rf"', ("rm", "rf"), False, ("tool",), 'tool:"rm -rf"'),)

    def test_a_beginning_of_two_letters_is_a_word_and_says_so(self) -> None:
        """A letter with a star stands for a large part of all words: no index answers that soon."""
        for query in ("re*", "é*", '"one re"*', "parse_c*"):
            found = read(query)
            assert (found.match or "").endswith('"') and "at least 3 letters" in (found.reason or "")
        assert all(read(query).reason is None for query in ("rep*", "数*", "🚀*", "parse_conf*"))

    def test_a_query_of_any_length_is_cut_and_says_so(self, table: Table) -> None:
        for query in ("word " * 10_000, '"' + "a " * 10_000 + '"', "a OR " * 300 + "a", "x" * 100_000, "(a OR b) " * 200):
            found = read(query)
            assert found.is_plain and found.reason is not None
            assert len(found.terms) <= 64 and len(found.match or "") < 5000
            table.find(found.match)

    def test_the_deepest_that_is_read_is_no_trouble_for_fts5(self, table: Table) -> None:
        found = read("(a OR b (c NOT " * 8 + "d" + "))" * 8)
        assert not found.is_plain
        table.fill("d", "b c d a")
        table.find(found.match)


class TestFinding:
    @pytest.mark.parametrize(
        ("text", "hits", "misses"),
        [
            ("def parse_config(x)", ["parse_config", "parse", "config", "CONFIG", "parse_con*"], ["parseconfig", "config_parse"]),
            (
                "parseConfig()",
                ["parseConfig", "parseconfig", "parse", "Config", "conf*", '"parse config"', "parse-config"],
                ["pars"],
            ),
            ("use std::vector<int>", ["std::vector", "vector", "std::vector<int>"], ["vector::std"]),
            ("open src/app/main.py", ["src/app/main.py", "app/main", "main.py", "main", "src/app/*"], ["src/main.py"]),
            ("call foo.bar() now", ["foo.bar()", "bar()", "(foo.bar() OR x)"], ["bar.foo()"]),
            ("git commit --no-verify", ["--no-verify", "no-verify", "verify"], ["verify-no"]),
            ("in C++ and C# only", ["C++", "c++", "C#", "prompt:C++", "C", '"C++ and C#"'], ["F#", "g++", "reply:C++"]),
            ("plain c and f", ["c", "f"], ["C++", "C#", "F#"]),
            ("runs on .NET 8", [".NET", "net", ".NET*"], []),
            ("failed: ENOENT (E1234)", ["ENOENT", "E1234", "E12*", "(ENOENT OR x)"], ["E12"]),
            ("see https://a.example/b?c=d", ["https://a.example/b?c=d", "a.example", "example/b"], ["example/c"]),
            (
                "done ✅ and ❤️ 👩🏽\u200d💻",
                ["✅", "❤", "❤️", "👩🏽\u200d💻", "👩", "👩\u200d💻", '"done ✅"'],
                ["💔", "👨\u200d💻"],
            ),
            ("Éric a résumé le café", ["eric", "Éric", "resume", "CAFÉ", "cafe\u0301", "e\u0301ric"], ["caf"]),
            ("Straße İstanbul Σοφός", ["straße", "istanbul", "σοφός", "ΣΟΦΌΣ"], ["strasse"]),
            ("\x1b[31mError\x1b[0m", ["error"], []),
            (
                "plain words",
                ["words plain", "plain AND words", "plain OR x", "(plain)", "plain NOT x"],
                ["plain NOT words", '"words plain"'],
            ),
            (
                "parseConfig loadFile",
                ["parse load", '"parseConfig loadFile"'],
                ['"config load"', '"parse file"', '"loadFile parse"'],
            ),
        ],
    )
    def test_what_finds_a_text(self, table: Table, text: str, hits: list[str], misses: list[str]) -> None:
        table.fill(text)
        assert [query for query in hits if table.find(read(query).match) != [0]] == []
        assert [query for query in misses if table.find(read(query).match) != []] == []

    def test_a_column_bounds_a_term(self, table: Table) -> None:
        for column in COLUMNS:
            table.fill("one two", column=column)
            for other in COLUMNS:
                for query in (
                    f"{other}:one",
                    f'{other}:"one two"',
                    f"{other}:(one two)",
                    f"{other}:one*",
                    f"one AND {other}:two",
                ):
                    assert table.find(read(query).match) == ([0] if column == other else []), query

    def test_no_query_reaches_the_words_of_the_scope(self, table: Table) -> None:
        table.fill("\U0010fff0inner", column="scope")
        for query in ("scope:inner", "inner", "*", "\U0010fff0*", "\U0010fff0inner", "i*"):
            assert table.find(read(query).match) == []


queries = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(
            ['"', "(", ")", "*", " ", " ", " AND ", " OR ", " NOT ", "NEAR", "^", "{", "}", "+", ":", "-", "\\", "'", "\x00"]
        ),
        st.sampled_from(
            [*(f"{column}:" for column in COLUMNS), "scope:", "rank:", "a", "b*", "C++", "C#", "é", "空引", "✅", "👩🏽\u200d💻"]
        ),
    ),
    max_size=14,
).map("".join)


class TestAnyText:
    @given(queries | st.text())
    @example("((" * 2000)
    @example('"' * 1001)
    @example("a NOT " * 500)
    def test_no_text_is_an_error_of_its_syntax(self, query: str) -> None:
        found = read(query)
        assert found.text == query
        assert (found.match is None) == (not found.terms) == (not found.reading)
        assert found.match is not None or found.reason
        assert not found.is_plain or found.reason
        TABLE.find(found.match)
        for term in found.terms:
            assert term.tokens and all(term.tokens)
            TABLE.find(term.match)
            TABLE.find(f"({found.match}) AND scope:x")

    @given(queries)
    def test_a_reading_reads_as_itself(self, query: str) -> None:
        found = read(query)
        again = read(found.reading)
        if found.match is not None and len(found.terms) < 32 and not again.is_plain:
            assert again.reading == found.reading
            assert [replace(term, match="") for term in again.terms] == [replace(term, match="") for term in found.terms]


TABLE = Table()
TABLE.fill("a b", "b c", "空引用", "C++ ✅")


Truth = Callable[[frozenset[str]], bool]
WORDS = ("ant", "bee", "cat", "dog")


def expressions() -> st.SearchStrategy[tuple[str, Truth]]:
    """Queries with what they mean: whether a document of some words is found."""

    def leaf(word: str) -> tuple[str, Truth]:
        return word, lambda document: word in document

    def joined(operator: str, meaning: Callable[[bool, bool], bool]) -> Callable[..., tuple[str, Truth]]:
        def join(pair: tuple[tuple[str, Truth], tuple[str, Truth]]) -> tuple[str, Truth]:
            (one, holds), (other, also) = pair
            return f"({one}) {operator} ({other})", lambda document: meaning(holds(document), also(document))

        return join

    def wider(inner: st.SearchStrategy[tuple[str, Truth]]) -> st.SearchStrategy[tuple[str, Truth]]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(joined("AND", lambda one, other: one and other)),
            pairs.map(joined("", lambda one, other: one and other)),
            pairs.map(joined("OR", lambda one, other: one or other)),
            pairs.map(joined("NOT", lambda one, other: one and not other)),
            pairs.map(joined("AND NOT", lambda one, other: one and not other)),
        )

    return st.recursive(st.sampled_from(WORDS).map(leaf), wider, max_leaves=8)


@given(expressions(), st.lists(st.frozensets(st.sampled_from(WORDS), min_size=1), min_size=1, max_size=6))
def test_an_expression_finds_what_it_means(expression: tuple[str, Truth], documents: list[frozenset[str]]) -> None:
    query, holds = expression
    table = Table()
    table.fill(*(" ".join(sorted(document)) for document in documents))
    expected = [row for row, document in enumerate(documents) if holds(document)]
    for text in (query, read(query).reading):
        found = read(text)
        assert not found.is_plain
        assert table.find(found.match) == expected
