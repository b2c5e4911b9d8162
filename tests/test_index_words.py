"""Words as the search index knows them, against FTS5 itself."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcripts.index.words import Word, aligned, composed, indexable, parts, set_apart, signed, unsigned, words

# Assigned in Unicode 3.2, so that the tables of FTS5 and of every Python know them; without what was changed since (the case
# of Cherokee, two Mongolian marks) and the one letter whose diacritics FTS5 keeps.
CHANGED = {*map(chr, range(0x13A0, 0x13F6)), "\u1885", "\u1886", "\u01e0", "\u01e1"}
KNOWN = "".join(c for c in map(chr, range(0x30000)) if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs") and c not in CHANGED)

IDENTIFIERS = ["parseConfig", "HTTPServer", "getURL2", "C++", "c#", "snake_case"]
LETTERS = ["悬空引用", "gen后50", "かな", "한국", "é", "e\u0301", "ß", "Σας", "İ"]
SIGNS = ["👩🏽\u200d💻", "❤️", "✅", "🇩🇪", "│", "→", " ", "\n", ".", "-", "\x1b[31mred\x1b[0m", "\ue0a0"]
SAMPLES = [*IDENTIFIERS, *LETTERS, *SIGNS]


def soup(characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(SAMPLES) | st.text(characters, max_size=8), max_size=8).map("".join)


texts = soup(st.characters(exclude_categories=["Cs"]))
known_texts = soup(st.sampled_from(KNOWN))


def tokens(*documents: str) -> list[list[str]]:
    """What FTS5 makes of documents: the words of each, in order."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE t USING fts5(x, content = '', tokenize = 'unicode61 remove_diacritics 2')")
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
    database.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(documents))
    found: list[list[str]] = [[] for _ in documents]
    for row, term in database.execute("SELECT doc, term FROM v ORDER BY doc, offset"):
        found[row].append(term)
    database.close()
    return found


def folded(found: Sequence[Word]) -> list[str]:
    return [word.folded for word in found]


class TestWords:
    def test_each_character_alone_and_within_a_word_is_what_the_tokenizer_makes_of_it(self) -> None:
        characters = [c for c in KNOWN if unicodedata.is_normalized("NFC", f"x{c}")]
        samples = [f"x{c}y {c}" for c in characters]
        differing = {
            hex(ord(character))
            for character, sample, found in zip(characters, samples, tokens(*map(set_apart, samples)), strict=True)
            if folded(list(words(sample))) != found
        }
        assert differing == set()

    @given(known_texts)
    def test_any_text_has_the_words_that_the_tokenizer_finds(self, text: str) -> None:
        text = composed(text)
        found = [word for word in words(text) if word.folded]
        assert [folded(found)] == tokens(set_apart(text))

    @given(texts)
    def test_words_stand_where_they_say(self, text: str) -> None:
        end = 0
        for word in words(text):
            assert end <= word.start < word.end <= len(text)
            end = word.end

    @given(texts)
    def test_the_aligned_text_has_the_same_length_and_holds_each_word_in_its_place(self, text: str) -> None:
        text = composed(text)
        same = aligned(text)
        assert len(same) == len(text)
        for word in words(text):
            if word.end - word.start == len(word.folded) and set(text[word.start : word.end]).issubset(KNOWN):
                assert same[word.start : word.end] == word.folded


class TestIndexable:
    @given(texts)
    def test_the_words_of_a_text_come_first_and_unchanged(self, text: str) -> None:
        before, after = tokens(set_apart(text), indexable(text))
        assert after[: len(before)] == before
        assert len(after) == len(before) or after[len(before)] == "\U0010fffd"

    @given(texts)
    def test_it_depends_on_the_text_alone(self, text: str) -> None:
        assert indexable(text) == indexable(str(text.encode("utf-8", "surrogatepass"), "utf-8", "surrogatepass"))

    @pytest.mark.parametrize(
        "text", ["", "plain words, no more", "SHOUTING", "snake_case x86 1.2.3", "i + j # k", "│ → ─ ●", "Größe"]
    )
    def test_what_needs_nothing_is_left_as_it_is(self, text: str) -> None:
        assert indexable(text) == text

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("parseConfig", ["parseconfig", "|", "parse", "config"]),
            ("a HTTPServer b", ["a", "httpserver", "b", "|", "http", "server"]),
            ("getURL2", ["geturl2", "|", "get", "url"]),
            ("utf8Decoder x.toString()", ["utf8decoder", "x", "tostring", "|", "utf", "decoder", "|", "to", "string"]),
            ("URLs", ["urls", "|", "url"]),
            ("parseConfig ParseConfig", ["parseconfig", "parseconfig", "|", "parse", "config"]),
            ("größeWert", ["großewert", "|", "wert"]),
            ("in C++17, C# and g++", ["in", "c", "17", "c", "and", "g", "|", "c++", "|", "c#", "|", "g++"]),
            ("a#b x# ++i", ["a", "b", "x", "i", "|", "x#"]),
            ("修复ok。", ["修", "复", "ok"]),
            ("✅done❤️", ["✅", "done", "❤"]),
            ("👩🏽\u200d💻x", ["👩", "💻", "x"]),
            ("ﾃｽﾄ 時々AI", ["ﾃ", "ｽ", "ﾄ", "時", "々", "ai"]),
            ("cafe\u0301 か\u3099", ["cafe", "が"]),
            ("\x1b[31merror\x1b[0m", ["error"]),
        ],
    )
    def test_what_is_added(self, text: str, expected: list[str]) -> None:
        assert [written(token) for token in tokens(indexable(text))[0]] == expected

    @pytest.mark.parametrize("text", ["toolu01XfDuDyJgAaCzvNptVvoYeL", "aB" * 400, "9F3A2B"])
    def test_random_characters_have_no_parts(self, text: str) -> None:
        assert parts(text) == ()


def written(token: str) -> str:
    if token == "\U0010fffd":
        return "|"
    token = unsigned(token)
    return chr(ord(token) - 0xF0000) if len(token) == 1 and token > "\U000f0000" else token


def test_names_with_signs_stand_where_they_say() -> None:
    text = "C++17 and F#, not a#b"
    assert [text[word.start : word.end] for word in signed(text)] == ["C++", "F#"]
