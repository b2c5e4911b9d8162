"""The passages of a message that a query is found in.

Invariants:
- Marks are what the index found: whole words, parts of identifiers, phrases, beginnings of words, in the columns they are
  bound to; folded as the index folds them. They lie within the text, in order, apart, and split no visible character.
- No control character stands in a snippet, and each run of blanks is one space.
- Cost: linear in the texts. Words are looked for by patterns, a text is never tokenized whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from typing import NamedTuple
from unicodedata import category

from transcripts.index.words import CJK, EMOJI_WORDS, LONGEST_IDENTIFIER, aligned, composed, parts, unsigned
from transcripts.sessions.expression import Term

_MOST_PASSAGES = 3
_MOST_HITS = 500  # of a term in a text, to choose passages by
_REACH = 1000  # characters behind a passage that are looked at for the end of a hit
_SLACK = 24  # characters that a passage gives up to end between words
_ELLIPSIS = "…"
_LETTER = rf"[^\W_{CJK}]"
_BETWEEN = rf"(?:[^\w{EMOJI_WORDS}]|_)"
_ALONE = cache(partial(re.compile, f"[{CJK}{EMOJI_WORDS}]"))
# what no terminal shows as written: controls, marks of direction, halves of surrogate pairs
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_IDENTIFIER = re.compile("[A-Za-z0-9]+")


class Snippet(NamedTuple):
    """Passages of a text: `column` it is from (None: there is no text), `text`, and the hits as (start, end) within it.

    Offsets count characters (code points); marks are in ascending order and do not overlap.
    """

    column: str | None
    text: str
    marks: list[tuple[int, int]]


class _Hit(NamedTuple):
    start: int
    end: int
    term: int


def snippet(texts: Sequence[tuple[str, str]], terms: Sequence[Term], width: int = 160) -> Snippet:
    """The best passages of the first of the texts (column, text) in which most of the terms are found.

    `width` bounds the passages in characters, ellipses aside. Where no term is found the first text's beginning is given,
    without marks. Cost: linear in the texts, times the terms.
    """
    wanted: list[Term] = []
    best: tuple[int, str, _Text, list[_Hit]] | None = None
    for column, original in texts:
        text = _Text(original)
        if not text.shown:
            continue
        bound = [term for term in terms if term.columns is None or column in term.columns]
        hits = text.hits(bound, 0, len(text.shown), _MOST_HITS)
        found = len({hit.term for hit in hits})
        if best is None or found > best[0]:
            best, wanted = (found, column, text, hits), bound
    if best is None:
        return Snippet(texts[0][0] if texts else None, "", [])
    _, column, text, hits = best
    passages = _passages(text.shown, hits, width)
    again = [hit for low, high in passages for hit in text.hits(wanted, low, high, high - low)]
    return _composition(column, text.shown, passages, _marks(text.shown, again))


class _Text:
    """A text as it is shown, and folded to look for words in it."""

    def __init__(self, text: str) -> None:
        shown = " ".join(composed(text).split())
        self.shown = shown if shown.isprintable() else " ".join(_UNSHOWN.sub(" ", shown).split())
        self._folded = aligned(self.shown)

    def hits(self, terms: Sequence[Term], low: int, high: int, most: int) -> list[_Hit]:
        """Where the terms begin between two places, in ascending order, at most so many of each term."""
        hits: set[_Hit] = set()
        for number, term in enumerate(terms):
            whole, inner = _patterns(term.tokens, term.prefix)
            for found in islice(whole.finditer(self._folded, low, high + _REACH), most):
                if found.start() >= high:
                    break
                hits.add(_Hit(found.start(), found.end(), number))
            if inner is not None:
                for start, end in islice(_within(self.shown, inner, term.prefix, low, high), most):
                    hits.add(_Hit(start, end, number))
        return sorted(hits)


@lru_cache(256)
def _patterns(tokens: tuple[str, ...], prefix: bool) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """What finds words in a folded text, and what finds candidates for parts of identifiers in the text itself.

    The first begins with a literal, so that the search for it is fast: what stands before is tested behind it.
    """
    pattern = ""
    for number, token in enumerate(tokens):
        written = unsigned(token)
        literal, last = re.escape(written), number == len(tokens) - 1
        bare = _ALONE().match(written[:1]) is None
        pattern += literal + (f"(?<!{_LETTER}{literal})" if number == 0 and bare else "")
        if written != token:  # C++: what follows is another word, whatever it is
            continue
        if last and prefix and bare:
            pattern += f"{_LETTER}*"
        elif bare:
            pattern += f"(?!{_LETTER})"
        if not last:
            joined = bare and _ALONE().match(tokens[number + 1]) is None
            pattern += _BETWEEN + ("+" if joined else "*")
    return re.compile(pattern), _inner(tokens, prefix)


def _inner(tokens: Sequence[str], prefix: bool) -> re.Pattern[str] | None:
    if not all(token.isascii() and token.isalpha() for token in tokens):
        return None
    first, *others = tokens
    # a part in lower case opens its identifier, or follows a digit; a prefix alone is found there as the beginning of a word
    lower = f"{first}(?<![A-Za-z]{first})(?:(?=[A-Z0-9])|(?<=[0-9]{first}))"
    if prefix and not others:
        lower = rf"{first}(?<=[^\x00-/:-\x7f]{first})"
    pattern = f"(?:{lower}|{first.capitalize()}|{first.upper()})"
    for token in others:
        pattern += f"(?:{token.capitalize()}|{token.upper()})"
    return re.compile(pattern if prefix else f"{pattern}(?![a-z])")


def _within(text: str, candidates: re.Pattern[str], prefix: bool, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Where one or more parts of an identifier are exactly what a pattern found between two places, or begin with it."""
    begin = end = max(0, low - LONGEST_IDENTIFIER - 1)
    ends: dict[int, int] = {}
    for found in candidates.finditer(text, low, high + _REACH):
        if found.start() >= high:
            break
        if found.end() > end:
            begin, end = _identifier(text, found.start(), end)
            identifier = text[begin:end] if end - begin <= LONGEST_IDENTIFIER else ""
            ends = {begin + part.start: begin + part.end for part in parts(identifier)}
        if found.start() in ends:
            reached = min((place for place in ends.values() if place >= found.end()), default=0)
            if reached == found.end() or (prefix and reached):
                yield found.start(), reached


def _identifier(text: str, at: int, floor: int) -> tuple[int, int]:
    """Where the letters and digits around a place begin and end; they do not begin before `floor`."""
    begin = at
    while begin > floor and text[begin - 1].isascii() and text[begin - 1].isalnum():
        begin -= 1
    found = _IDENTIFIER.match(text, at)
    return begin, found.end() if found else at


def _passages(text: str, hits: Sequence[_Hit], width: int) -> list[tuple[int, int]]:
    """The parts of the text to show: as few as show every term found, at most three, in order, apart."""
    if not hits:
        return [_stretch(text, 0, 0, 0, len(text), width)]
    everything = {hit.term for hit in hits}
    for count in range(1, _MOST_PASSAGES + 1):
        chosen, shown = _windows(hits, width // count, count)
        if shown == everything:
            break
    passages: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(chosen):
        floor = passages[-1][1] if passages else 0
        ceiling = chosen[number + 1][0] if number + 1 < len(chosen) else len(text)
        low, high = _stretch(text, start, end, floor, ceiling, width // len(chosen))
        if passages and low - floor <= 1:
            low = passages.pop()[0]
        passages.append((low, high))
    return passages


def _windows(hits: Sequence[_Hit], width: int, count: int) -> tuple[list[tuple[int, int]], set[int]]:
    """Up to `count` stretches of hits, none wider than `width` unless one hit is, and the terms in them.

    Each is the one that shows most terms not shown yet, then most hits, then the first.
    """
    chosen: list[tuple[int, int]] = []
    shown: set[int] = set()
    while len(chosen) < count:
        best: tuple[int, int, int, int] | None = None
        inside: dict[int, int] = {}
        last = 0
        for first, hit in enumerate(hits):
            while last < len(hits) and (last <= first or hits[last].end <= hit.start + width):
                if hits[last].term not in shown:
                    inside[hits[last].term] = inside.get(hits[last].term, 0) + 1
                last += 1
            if inside and (best is None or (len(inside), last - first) > best[:2]):
                best = (len(inside), last - first, first, last)
            if hit.term in inside:
                inside[hit.term] -= 1
                if not inside[hit.term]:
                    del inside[hit.term]
        if best is None:
            break
        window = hits[best[2] : best[3]]
        chosen.append((window[0].start, max(hit.end for hit in window)))
        shown.update(hit.term for hit in window)
    return _apart(chosen), shown


def _apart(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _stretch(text: str, start: int, end: int, floor: int, ceiling: int, width: int) -> tuple[int, int]:
    """A stretch of hits with what stands around it, `width` in all, between words where that is near."""
    end = min(end, start + width)
    low = max(floor, start - (width - (end - start)) // 3)
    high = min(ceiling, low + width)
    low = max(floor, min(low, high - width))
    if low > floor and text[low - 1] != " " and (space := text.find(" ", low, min(start, low + _SLACK))) >= 0:
        low = space + 1
    if high < len(text) and text[high] != " " and (space := text.rfind(" ", max(end, high - _SLACK), high)) >= 0:
        high = space
    while low < start and _joined(text, low):
        low += 1
    while high > end and _joined(text, high):
        high -= 1
    while high < len(text) and _joined(text, high):  # a hit that is cut is cut behind a visible character
        high += 1
    return low, high


def _marks(text: str, hits: Sequence[_Hit]) -> list[tuple[int, int]]:
    marks: list[tuple[int, int]] = []
    for start, end in _apart([(hit.start, hit.end) for hit in hits]):
        while start > 0 and _joined(text, start):
            start -= 1
        while end < len(text) and _joined(text, end):
            end += 1
        marks.append((start, end))
    return _apart(marks)


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and at a place are seen as one: marks, tones of skin, joined emoji, flags."""
    if at >= len(text) or at == 0:
        return False
    after = text[at]
    if after.isascii():
        return False
    if category(after).startswith("M") or after == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff" or text[at - 1] == "\u200d":
        return True
    flags = 0
    while flags < at and "\U0001f1e6" <= text[at - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= after <= "\U0001f1ff"


def _composition(column: str, text: str, passages: Sequence[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> Snippet:
    """The passages with ellipses between, and the marks moved to where they stand there."""
    shown = ""
    moved: list[tuple[int, int]] = []
    for number, (low, high) in enumerate(passages):
        shown += f" {_ELLIPSIS} " if number else f"{_ELLIPSIS} " if low > 0 else ""
        shift = len(shown) - low
        shown += text[low:high]
        moved += [(max(start, low) + shift, min(end, high) + shift) for start, end in marks if start < high and end > low]
    if passages[-1][1] < len(text):
        shown += f" {_ELLIPSIS}"
    return Snippet(column, shown, moved)
