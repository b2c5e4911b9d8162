"""What a person typed into the search, read: an expression for the index, never an error of its syntax.

Invariants:
- Any text is read. What is no valid expression is taken as plain words, all of which must be found; where there is nothing
  to look for, the reason says why. Words reach FTS5 only within quotes, so no text is FTS5 syntax.
- Operators are AND, OR and NOT in upper case, parentheses around terms, "phrases", a star behind a word, and a column's name
  with a colon before a term. Everything else is text: `foo.bar()`, `std::vector` and `--no-verify` are phrases of their words.
- Length and depth are bounded, far below what FTS5 takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Literal

from transcripts.index.words import CJK, RESERVED, set_apart, signed, words

COLUMNS = ("title", "summary", "prompt", "reply", "thinking", "tool", "result")
"""The columns that a query can name."""

_LONGEST = 2000  # characters of a query that are read
_MOST_TERMS = 64
_SHORTEST_BEGINNING = 3  # letters: on a gigabyte, one letter with a star takes half a second, three take a tenth of that
_DEEPEST = 16  # levels of parentheses
_NO_WORD = "there is no word in it, only punctuation"
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_SPACE = re.compile(r"\s+")
_COLUMN = re.compile(rf"({'|'.join(COLUMNS)}):(?=\S)")
_UNTYPED = re.compile(f"[\\x00\\ud800-\\udfff{RESERVED}]")
_OWN_WORD = cache(partial(re.compile, f"[{CJK}\U000f0000-\U0010ffff]"))  # a character that is a word by itself
_CJK_NEIGHBOURS = cache(partial(re.compile, f"(?<=[{CJK}]) (?=[{CJK}])"))


@dataclass(frozen=True)
class Term:
    """Words that follow each other: what can be looked up and highlighted by itself.

    `shown` is the term as a reading shows it, `tokens` its words as the index folds them, `prefix` says that the last one
    need only begin so, `columns` are where it must stand (None: anywhere), `match` is its own FTS5 expression.
    """

    shown: str
    tokens: tuple[str, ...]
    prefix: bool
    columns: tuple[str, ...] | None
    match: str


@dataclass(frozen=True)
class Expression:
    """A query as it was read.

    `text` is what was typed; `match` the FTS5 expression, None when there is nothing to look for; `reading` the query in
    plain syntax; `is_plain` says that it was taken as plain words; `reason` why it was, what else was not taken as typed,
    or why there is nothing to look for; `terms` what a hit may hold, in order, without repeats and without what NOT excludes.
    """

    text: str
    match: str | None
    reading: str
    is_plain: bool
    reason: str | None
    terms: tuple[Term, ...]


class _Invalid(Exception):
    """The text is no valid expression; its words are taken plainly."""


class _Unclosed(Exception):
    """A phrase is opened and not closed: there is no telling where it ends."""


@dataclass(frozen=True)
class _Token:
    kind: Literal["term", "phrase", "operator", "column", "(", ")"]
    text: str


@dataclass(frozen=True)
class _Node:
    """A part of an expression; `operator` AND, OR, or NOT (the first item without the others)."""

    operator: str
    items: tuple[_Node | Term, ...] = field(default=())


def read(text: str) -> Expression:
    """Read a query. Never raises; cost: linear in the text, of which the first 2,000 characters are read."""
    typed = _UNTYPED.sub(" ", text[:_LONGEST])
    if not text.strip():
        return Expression(text, None, "", False, "it is blank", ())
    if not typed.strip():
        return Expression(text, None, "", False, _NO_WORD, ())
    try:
        if len(text) > _LONGEST:
            raise _Invalid(f"it is longer than {_LONGEST:,} characters, of which the first were taken as plain words")
        parser = _Parser(list(_tokens(typed)))
        node, plain, reason = parser.expression(), False, parser.remark()
        if sum(1 for _ in _terms(node)) > _MOST_TERMS:
            raise _Invalid(f"it has more than {_MOST_TERMS} terms, of which the first were taken as plain words")
    except _Unclosed:
        return Expression(text, None, "", False, "a quotation mark is opened and not closed", ())
    except _Invalid as found:
        node, plain, reason = _plain(typed), True, str(found)
    if node is None:
        return Expression(text, None, "", plain, _NO_WORD, ())
    terms: dict[object, Term] = {}
    for term in _terms(node, excluded=False):
        terms.setdefault((term.tokens, term.prefix, term.columns), term)
    return Expression(text, _match(node), _reading(node), plain, reason, tuple(terms.values()))


def _plain(text: str) -> _Node | Term | None:
    terms: list[_Node | Term] = []
    for word in text.split():
        if (term := _term(word, prefix=False, columns=None)) is not None:
            terms.append(term)
            if len(terms) == _MOST_TERMS:
                break
    return _joined("AND", terms)


def _tokens(text: str) -> Iterator[_Token]:
    """The text as tokens; a parenthesis or a quotation mark within a word belongs to the word."""
    at, depth = 0, 0
    while at < len(text):
        if (space := _SPACE.match(text, at)) is not None:
            at = space.end()
        elif text[at] == "(":
            depth += 1
            at += 1
            yield _Token("(", "(")
        elif text[at] == ")":
            depth -= 1
            at += 1
            yield _Token(")", ")")
        elif text[at] == '"':
            end = text.find('"', at + 1)
            if end < 0:
                raise _Unclosed
            star = text.startswith("*", end + 1)
            yield _Token("phrase", text[at + 1 : end] + ("*" if star else ""))
            at = end + 1 + star
        elif (column := _COLUMN.match(text, at)) is not None:
            at = column.end()
            yield _Token("column", column[1])
        else:
            end = _word_end(text, at, depth > 0)
            word = text[at:end]
            yield _Token("operator" if word in _OPERATORS else "term", word)
            at = end


def _word_end(text: str, at: int, grouped: bool) -> int:
    """Where the word at a place ends: at a space, or at a parenthesis that closes a group."""
    depth = 0
    while at < len(text) and not text[at].isspace():
        if text[at] == "(":
            depth += 1
        elif text[at] == ")":
            if depth == 0 and grouped:
                break
            depth = max(0, depth - 1)
        at += 1
    return at


class _Parser:
    """Recursive descent: OR binds weaker than AND (also unsaid) and NOT."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._short: list[str] = []  # beginnings that are read as whole words

    def expression(self) -> _Node | Term | None:
        node = self._either(None, 0)
        if self._at < len(self._tokens):
            raise _Invalid("a parenthesis is closed that was not opened, so it was taken as plain words")
        return node

    def remark(self) -> str | None:
        """What the reader should be told of how the query was read."""
        if not self._short:
            return None
        return f"a beginning has at least {_SHORTEST_BEGINNING} letters; taken as whole words: {', '.join(self._short)}"

    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _takes(self, kind: str, text: str) -> bool:
        found = self._next()
        if found is not None and (found.kind, found.text) == (kind, text):
            self._at += 1
            return True
        return False

    def _either(self, columns: tuple[str, ...] | None, depth: int) -> _Node | Term | None:
        items = [self._all(columns, depth)]
        while self._takes("operator", "OR"):
            items.append(self._all(columns, depth))
        return _joined("OR", [item for item in items if item is not None])

    def _all(self, columns: tuple[str, ...] | None, depth: int) -> _Node | Term | None:
        wanted, excluded = [self._item(columns, depth)], []
        while True:
            said = self._takes("operator", "AND")
            if self._takes("operator", "NOT"):
                excluded.append(self._item(columns, depth))
            elif said or ((found := self._next()) is not None and (found.kind not in ("operator", ")"))):
                wanted.append(self._item(columns, depth))
            else:
                break
        node = _joined("AND", [item for item in wanted if item is not None])
        without = [item for item in excluded if item is not None]
        if node is None and without:
            raise _Invalid("there is nothing that NOT could be taken from, so it was taken as plain words")
        return _Node("NOT", (node, *without)) if node is not None and without else node

    def _item(self, columns: tuple[str, ...] | None, depth: int) -> _Node | Term | None:
        found = self._next()
        if found is None or found.kind in ("operator", ")"):
            if found is not None and found.kind == ")" and self._at and self._tokens[self._at - 1].kind == "(":
                return None  # () is punctuation
            raise _Invalid("an operator stands where a word is expected, so it was taken as plain words")
        self._at += 1
        match found.kind:
            case "(":
                if depth == _DEEPEST:
                    raise _Invalid(f"its parentheses are deeper than {_DEEPEST} levels, so it was taken as plain words")
                node = self._either(columns, depth + 1)
                if not self._takes(")", ")"):
                    raise _Invalid("a parenthesis is opened and not closed, so it was taken as plain words")
                return node
            case "column":
                if columns is not None:
                    raise _Invalid("a column is named within another column, so it was taken as plain words")
                return self._item((found.text,), depth)
            case _:
                bare = found.text.rstrip("*")
                prefix = _has_star(found.text)
                if prefix and _is_short(bare):
                    self._short.append(found.text)
                    prefix = False
                return _term(bare, prefix, columns)


def _has_star(text: str) -> bool:
    """Whether a star stands right behind a word."""
    bare = text.rstrip("*")
    if bare == text:
        return False
    return any(word.end == len(bare) for word in words(bare))


def _is_short(text: str) -> bool:
    """Whether the last word of a beginning is so short that it would be that of a large part of all words."""
    *_others, last = (word.folded for word in words(text))
    return len(last) < _SHORTEST_BEGINNING and not _OWN_WORD().match(last)


def _term(text: str, prefix: bool, columns: tuple[str, ...] | None) -> _Node | Term | None:
    """What a word or phrase asks for: its words in sequence, and each name with a sign (C++); None when it has no words."""
    text = text.replace('"', " ")
    found, named = list(words(text)), list(signed(text))
    terms = [_said(text[name.start : name.end], (name.folded,), False, columns, name.folded) for name in named]
    if found and not (len(named) == len(found) == 1):  # of C++ alone, the word C says nothing more
        spoken = _CJK_NEIGHBOURS().sub("", " ".join(text[word.start : word.end] for word in found))
        terms.insert(0, _said(spoken, tuple(word.folded for word in found), prefix, columns, set_apart(text)))
    return _joined("AND", terms)


def _said(spoken: str, tokens: tuple[str, ...], prefix: bool, columns: tuple[str, ...] | None, text: str) -> Term:
    shown = spoken + "*" * prefix
    if " " in shown or shown in _OPERATORS:
        shown = f'"{shown}"'
    bound = f"{columns[0]}:" if columns else ""
    return Term(bound + shown, tokens, prefix, columns, f'{bound}"{text}"{" *" if prefix else ""}')


def _joined(operator: str, items: Sequence[_Node | Term]) -> _Node | Term | None:
    if len(items) < 2:
        return items[0] if items else None
    flat: list[_Node | Term] = []
    for item in items:
        flat += item.items if isinstance(item, _Node) and item.operator == operator else [item]
    return _Node(operator, tuple(flat))


def _terms(node: _Node | Term | None, excluded: bool = True) -> Iterator[Term]:
    if isinstance(node, Term):
        yield node
    elif node is not None:
        for item in node.items[:1] if node.operator == "NOT" and not excluded else node.items:
            yield from _terms(item, excluded)


def _match(node: _Node | Term) -> str:
    if isinstance(node, Term):
        return node.match
    return f" {node.operator} ".join(f"({_match(item)})" if isinstance(item, _Node) else _match(item) for item in node.items)


def _reading(node: _Node | Term) -> str:
    if isinstance(node, Term):
        return node.shown
    shown = [f"({_reading(item)})" if isinstance(item, _Node) else item.shown for item in node.items]
    if node.operator == "NOT" and isinstance(node.items[0], _Node) and node.items[0].operator == "AND":
        shown[0] = _reading(node.items[0])
    return (" AND NOT " if node.operator == "NOT" else f" {node.operator} ").join(shown)
