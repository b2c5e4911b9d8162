"""Snippets: which passages are shown, and that the marks are what the index found."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transcripts.index.words import indexable
from transcripts.sessions.expression import read
from transcripts.sessions.snippet import Snippet, snippet

FILLER = "some filler words that nobody looks for "


def marked(query: str, *texts: str | tuple[str, str], width: int = 160) -> str:
    """The snippet with its marks in guillemets."""
    given = [("prompt", text) if isinstance(text, str) else text for text in texts]
    found = snippet(given, read(query).terms, width)
    shown, at = "", 0
    for start, end in found.marks:
        shown += f"{found.text[at:start]}«{found.text[start:end]}»"
        at = end
    return shown + found.text[at:]


class TestMarks:
    @pytest.mark.parametrize(
        ("query", "text", "expected"),
        [
            ("config", "Config reconfig config, CONFIG", "«Config» reconfig «config», «CONFIG»"),
            (
                "config",
                "parseConfig configParser getConfigURL2 configure",
                "parse«Config» «config»Parser get«Config»URL2 configure",
            ),
            ("server", "HTTPServer Servers", "HTTP«Server» Servers"),
            ("conf*", "config Conf xconf parseConfig confUrl", "«config» «Conf» xconf parse«Config» «confUrl»"),
            ("parseConfig", "parseConfig parse_config parseConfigs", "«parseConfig» parse_config parseConfigs"),
            ('"parse config"', "parseConfig parse.config parse the config", "«parseConfig» «parse.config» parse the config"),
            ('"parse conf*"', "parse config; parse con", "«parse config»; parse con"),
            ("src/main.py", "at src/main.py:3, src main", "at «src/main.py»:3, src main"),
            ("C++", "c, C++17 and (C++)", "c, «C++»17 and («C++»)"),
            ("引用", "悬空引用x引用", "悬空«引用»x«引用»"),
            ("itgc", "gen-itgc后50", "gen-«itgc»后50"),
            ("cafe", "Café CAFE\u0301 cafés", "«Café» «CAFÉ» cafés"),
            ("ΣΟΦΟΣ", "σοφος σοφοσ", "«σοφος» «σοφοσ»"),
            ("istanbul", "İstanbul", "«İstanbul»"),
            ("👩", "👩🏽\u200d💻 👩", "«👩🏽\u200d💻» «👩»"),
            ("✅", "✅️done", "«✅️»done"),
            ("🇩🇪", "in 🇩🇪 and 🇫🇷", "in «🇩🇪» and 🇫🇷"),
            ("a AND b NOT c", "a b c", "«a» «b» c"),
            ("prompt:a", "a", "«a»"),
            ("tool:a", "a", "a"),
            ("foo", "foo_bar foo2 2foo", "«foo»_bar foo2 2foo"),
            ("error", "\x1b[31mError\x1b[0m", "«Error»"),
        ],
    )
    def test_what_is_marked(self, query: str, text: str, expected: str) -> None:
        assert marked(query, text) == expected

    def test_a_message_is_shown_by_the_text_that_holds_most_terms(self) -> None:
        texts = [("reply", "the alpha"), ("tool", "beta and alpha"), ("result", "alpha beta")]
        assert snippet(texts, read("alpha beta").terms).column == "tool"
        assert snippet(texts, read("result:alpha").terms) == Snippet("result", "alpha beta", [(0, 5)])
        assert snippet(texts, read("gamma").terms) == Snippet("reply", "the alpha", [])

    def test_there_may_be_nothing_to_show(self) -> None:
        assert snippet([], read("a").terms) == Snippet(None, "", [])
        assert snippet([("reply", " \n")], read("a").terms) == Snippet("reply", "", [])
        assert snippet([("reply", "\x00"), ("tool", "b")], ()) == Snippet("tool", "b", [])


class TestPassages:
    def test_the_passage_around_a_hit_is_shown_whole_words_on_both_sides(self) -> None:
        found = snippet([("reply", FILLER * 50 + "the needle " + FILLER * 50)], read("needle").terms)
        assert found.text.startswith("… ") and found.text.endswith(" …") and "the needle some" in found.text
        assert 120 <= len(found.text) <= 164
        assert set(found.text[2:-2].split()) <= {*FILLER.split(), "the", "needle"}

    def test_words_far_apart_are_shown_in_passages_of_their_own(self) -> None:
        text = FILLER * 20 + "an apple " + FILLER * 20 + "a banana " + FILLER * 20 + "a cherry " + FILLER * 20
        shown = marked("apple banana cherry", text)
        assert shown.count(" … ") == 2 and all(f"«{word}»" in shown for word in ("apple", "banana", "cherry"))
        assert len(shown) <= 160 + 10 + 6

    def test_words_that_stand_together_are_preferred(self) -> None:
        text = "apple " + FILLER * 20 + "banana " + FILLER * 20 + "apple banana " + FILLER * 20
        assert "«apple» «banana»" in marked("apple banana", text)

    def test_a_rare_word_far_behind_a_frequent_one_is_shown(self) -> None:
        assert "«needle» «the»" in marked("the needle", "the " * 3000 + "needle the")

    def test_blanks_and_controls_become_one_space(self) -> None:
        assert marked("b", "a\n\n \t b\x00\x07c\u2028d\u202ee") == "a «b» c d e"

    def test_the_beginning_is_shown_where_no_term_is_found(self) -> None:
        assert marked("x", FILLER * 9, width=20) == "some filler words …"

    def test_a_word_longer_than_the_passage_is_cut(self) -> None:
        found = snippet([("reply", "x" * 500 + " y")], read("xxx*").terms, 100)
        assert found == Snippet("reply", "x" * 100 + " …", [(0, 100)])

    @pytest.mark.parametrize("cluster", ["e\u0301\u0302\u0330", "👩🏽\u200d💻", "🇩🇪", "❤️"])
    def test_no_visible_character_is_split(self, cluster: str) -> None:
        cluster = unicodedata.normalize("NFC", cluster)
        for shift in range(8):
            text = "y" * shift + cluster * 60 + " x " + cluster * 60
            inside = snippet([("reply", text)], read("x").terms, 90).text.strip("… ").lstrip("y")
            assert inside.replace(" x ", "").replace(cluster, "") == ""


WORDS = [
    "config",
    "parseConfig",
    "HTTPServer",
    "getURL2",
    "C++",
    "c",
    "url",
    "x",
    "Café",
    "cafe",
    "悬空",
    "空",
    "👩🏽\u200d💻",
    "✅",
    "2",
    "x2",
]
GLUE = [" ", "", ".", "_", "\n", "-", "  ", "│", "the ", "🏽", "\x1b[1m", "e\u0301"]
texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GLUE)), max_size=10).map(
    lambda pairs: "".join(word + glue for word, glue in pairs)
)
queries = st.lists(
    st.sampled_from([*WORDS, "con*", "parse*", "ht*", "空*", '"http server"', "get.url", "e*", "C#", '"parse conf*"', "x2ge*"]),
    max_size=3,
).map(" ".join)


class TestAgainstTheIndex:
    @given(texts, queries)
    @example("configéparseConfig", "parse*")
    @example("parseConfig", '"parse conf*"')
    @example("x2cafe", "cafe")
    @example("configéC++ 🇩🇪", "C++ 🇩🇪")
    def test_a_term_is_marked_where_and_only_where_the_index_finds_it(self, text: str, query: str) -> None:
        database = sqlite3.connect(":memory:")
        database.execute("CREATE VIRTUAL TABLE t USING fts5(prompt, tokenize = 'unicode61 remove_diacritics 2')")
        database.execute("INSERT INTO t VALUES (?)", (indexable(text),))
        for term in read(query).terms:
            found = database.execute("SELECT count(*) FROM t WHERE t MATCH ?", (term.match,)).fetchone()[0]
            assert bool(snippet([("prompt", text)], [term], 10_000).marks) == bool(found), term
        database.close()

    @given(st.lists(st.tuples(st.sampled_from(["prompt", "tool"]), texts | st.text()), max_size=3), queries, st.integers(20, 200))
    def test_marks_lie_in_order_apart_within_a_clean_text(self, given: list[tuple[str, str]], query: str, width: int) -> None:
        found = snippet(given, read(query).terms, width)
        assert found.column in {None, *(column for column, _ in given)}
        assert len(found.text) <= width + 3 * 3 + 2 + 8
        assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in found.text)
        assert "  " not in found.text
        end = 0
        for mark in found.marks:
            assert end <= mark[0] < mark[1] <= len(found.text)
            assert found.text[mark[0] : mark[1]].strip() == found.text[mark[0] : mark[1]]
            end = mark[1]
