"""Words as the search index knows them: what is added to a text before it is tokenized, and which words come out.

Invariants:
- Pure functions of the text: the same text gives the same words, so an index entry can be made again and taken out again.
  Whoever changes what `indexable` returns raises schema.TEXT_VERSION.
- The words of the text keep their order. What is added (the parts of parseConfig, the name C++) stands behind a word that
  no text holds, so a phrase over the text itself neither breaks nor begins to match.
- `words` of a composed text is what FTS5's `unicode61 remove_diacritics 2` makes of `set_apart(text)`, for the characters that
  were assigned when its tables were made (Unicode 6.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from typing import NamedTuple
from unicodedata import is_normalized, normalize

RESERVED = "\U0010ff00-\U0010fffd"
"""Characters of made-up words, as a range of a regular expression; they are letters to the tokenizer."""

_APART = " \U0010fffd "  # a word that no text holds: no phrase reaches across it
_SIGNS = {ord("+"): "\U0010ff2b", ord("#"): "\U0010ff23"}
_WRITTEN = {ord(word): chr(sign) for sign, word in _SIGNS.items()}
_EMOJI_SHIFT = 0xF0000  # an emoji's word lies in the private planes, where characters are letters to the tokenizer

CJK = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# the emoji of Unicode and their neighbours among dingbats; no arrows, boxes, blocks and geometric shapes, which tools draw with
EMOJI = (
    "\u203c\u2049\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u2600-\u266e\u2670-\u2767\u2794-\u27bf"
    "\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f3fa\U0001f400-\U0001faff"
)
EMOJI_WORDS = "\U000f203c-\U0010faff"  # what emoji are folded to
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_MARKS = "\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"  # diacritics within a word

_TONES = "\U0001f3fb-\U0001f3ff"  # of skin: they do not make another emoji
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")

# these take milliseconds to compile, so it is done when they are needed
_OWN = cache(partial(re.compile, f"([{CJK}{EMOJI}{_TONES}])"))
_ASCII_WORD = re.compile("[A-Za-z0-9]+")
_WORD = cache(partial(re.compile, f"[{CJK}{EMOJI}]|(?:[^\\W_{CJK}]|[{_PRIVATE}])(?:[^\\W_{CJK}]+|[{_PRIVATE}{_MARKS}]+)*"))
_SIGNED = cache(partial(re.compile, rf"(?<![^\W_{CJK}])(?:[A-Za-z][A-Za-z0-9]{{0,15}}\+\+|[A-Za-z]#(?![A-Za-z_]))"))
_PART = re.compile("[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+")
_TURN = re.compile("[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_SHORTEST_PART = 2
LONGEST_IDENTIFIER = 64
# characters whose folding is not their lower case
_UNALIGNED = cache(
    partial(
        re.compile,
        f"[{EMOJI}\u00b5\u00e0-\u024f\u0390\u03b0\u03c2\u03d0-\u03d6\u03f0-\u03f6\u1e00-\u1fff\u212b\u2c60-\u2c7f\ua64a\ua64b\ua720-\ua7ff]",
    )
)

# the shape of a text: one letter a kind of character, so that the places where a part begins are found at the speed of memory
_SHAPE = bytes(ord("A") if 65 <= c <= 90 else ord("a") if 97 <= c <= 122 or 48 <= c <= 57 else ord(" ") for c in range(256))
_HASHES = bytes(ord("a") if chr(c).isalpha() and c < 128 else ord("#") if c == ord("#") else ord(" ") for c in range(256))
_TURNS = (b"aA", b"AAa")  # what _TURN finds


class Word(NamedTuple):
    """A word at a place of a text, folded as the index folds it."""

    start: int
    end: int
    folded: str


def indexable(text: str) -> str:
    """What the tokenizer is given for a text: the text set apart, and a tail of further words.

    Cost: linear; an ASCII text without camel case is looked through at the speed of memory.
    """
    text = set_apart(text)
    tail = _tail(text)
    return f"{text}{_APART}{tail}" if tail else text


def set_apart(text: str) -> str:
    """The text with each CJK character a word of its own and each emoji a made-up word of its own, composed, without colours."""
    text = composed(text)
    if text.isascii() or not _OWN().search(text):
        return text
    pieces = _OWN().split(text)
    pieces[1::2] = map(_own, pieces[1::2])
    return " ".join(pieces)


def composed(text: str) -> str:
    """The text in its composed form (NFC), a space for each sequence that colours a terminal: such glue to the next word."""
    if "\x1b" in text:
        text = _COLOURS.sub(" ", text)
    return text if text.isascii() or is_normalized("NFC", text) else normalize("NFC", text)


def aligned(text: str) -> str:
    """The text folded character by character: as long as the text, and its words as `words` folds them where it is composed."""
    if text.isascii():
        return text.lower()
    folded: str = _UNALIGNED().sub(lambda found: _fold(found[0]), text.replace("\u0130", "i").lower())
    return folded


def words(text: str) -> Iterator[Word]:
    """The words of a text in order: what the index holds of it, without the tail."""
    if text.isascii():
        for found in _ASCII_WORD.finditer(text):
            yield Word(found.start(), found.end(), found[0].lower())
        return
    for found in _WORD().finditer(text):
        yield Word(found.start(), found.end(), fold(found[0]))


def signed(text: str) -> Iterator[Word]:
    """The names of a text that end in a sign (C++, C#), each as the made-up word that the tail holds for it."""
    for found in _SIGNED().finditer(text):
        yield Word(found.start(), found.end(), found[0].lower().translate(_SIGNS))


def unsigned(word: str) -> str:
    """A made-up word of `signed` as it is written in a text."""
    return word.translate(_WRITTEN)


def parts(identifier: str) -> tuple[Word, ...]:
    """The parts of a parseConfig or an HTTPServer (ASCII letters and digits) that are words; none of what is no identifier."""
    if len(identifier) > LONGEST_IDENTIFIER or not _TURN.search(identifier):
        return ()
    found = [Word(part.start(), part.end(), part[0].lower()) for part in _PART.finditer(identifier)]
    letters = sum(part.end - part.start for part in found)
    if len(found) < 2 or (len(identifier) > 16 and letters < 3 * len(found)):
        return ()  # random characters turn at every second or third
    return tuple(part for part in found if part.end - part.start >= _SHORTEST_PART)


def fold(word: str) -> str:
    """A word as the index folds it: lower case, Latin letters without diacritics, an emoji as its made-up word."""
    return word.lower() if word.isascii() else "".join(map(_fold, word))


@lru_cache(4096)
def _fold(character: str) -> str:
    if _OWN().match(character):
        return _own(character)
    if re.match(f"[{_MARKS}]", character):
        return ""
    folded = character.casefold()
    if len(folded) > 1:
        folded = character.lower()[0]
    base = normalize("NFD", folded)[0]
    return base if base.isascii() else folded


class _Own(dict[str, str]):
    def __missing__(self, character: str) -> str:
        word = character
        if re.match(f"[{EMOJI}]", character):
            word = chr(ord(character) + _EMOJI_SHIFT)
        elif re.match(f"[{_TONES}]", character):
            word = ""
        self[character] = word
        return word


_own = _Own().__getitem__  # the word of a character that is one of its own


@lru_cache(65536)
def _joined_parts(identifier: str) -> str:
    return " ".join(part.folded for part in parts(identifier))


def _tail(text: str) -> str:
    """What the tail of a text holds: the parts of each identifier in order, and names with signs, apart from each other."""
    raw = text.encode("ascii", "replace")
    shape = raw.translate(_SHAPE)
    identifiers: dict[str, None] = {}
    for turn in _TURNS:
        at = shape.find(turn)
        while at >= 0:
            end = shape.find(b" ", at)
            if end < 0:
                end = len(shape)
            identifiers[text[shape.rfind(b" ", 0, at) + 1 : end]] = None
            at = shape.find(turn, end)
    tail = dict.fromkeys(map(_joined_parts, identifiers))
    tail.pop("", None)
    if ("+" in text and "++" in text) or ("#" in text and b"a#" in raw.translate(_HASHES)):
        tail.update((word.folded, None) for word in signed(text))
    return _APART.join(tail)
