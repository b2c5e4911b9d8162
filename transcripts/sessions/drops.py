"""Assistant lines that the client leaves out of a resumed chain (FORMAT.md 3.9).

Two kinds: those that are as if they had never been, and those without content, which are sent as "(no content)" and so part
what stands around them, but do not show in the chain.
"""

from __future__ import annotations

import orjson

from transcripts.sessions.node import ASSISTANT, BLANK, EMPTY_CONTENT, THINKING_ONLY, Node


class Answered:
    """The calls that a chain answers. Most lines hold one id, so the lists are compared as they are stored first."""

    def __init__(self, chain: list[Node]) -> None:
        self.stored = {node.result_ids for node in chain}
        self._calls: set[str] | None = None

    def any_of(self, node: Node) -> bool:
        """Whether at least one call of a line is answered."""
        return node.call_ids in self.stored or not self._ids.isdisjoint(node.calls)

    @property
    def _ids(self) -> set[str]:
        if self._calls is None:
            self._calls = {call for ids in self.stored if ids is not None for call in orjson.loads(ids)}
        return self._calls


def dropped(chain: list[Node]) -> dict[int, str]:
    """The keys of the lines that are left out, with the reason. Most lines stay, and are looked at as little as can be."""
    answered = Answered(chain)
    stored, odd = answered.stored, BLANK | THINKING_ONLY
    doubtful = [node for node in chain if node.flags & odd or (node.call_ids is not None and node.call_ids not in stored)]
    if not doubtful:
        return {}
    last = next(node for node in reversed(chain) if node.flags & ASSISTANT)
    thinking = {node.message_id for node in doubtful if node.flags & THINKING_ONLY}
    speaking = {node.message_id for node in chain if node.message_id in thinking and not node.flags & THINKING_ONLY}
    found: dict[int, str] = {}
    for node in doubtful:
        is_last = node is last or (node.message_id is not None and node.message_id == last.message_id)
        if node.call_ids and not is_last and not answered.any_of(node):
            found[node.key] = "calls without a result"
        elif node.flags & BLANK:
            found[node.key] = "nothing but white space"
        elif node.flags & THINKING_ONLY and (node.message_id is None or node.message_id not in speaking):
            found[node.key] = "thinking only"
    return found


def hidden(chain: list[Node]) -> dict[int, str]:
    """The keys of the lines that do not show in the chain but are sent."""
    return {node.key: "no content" for node in chain if node.flags & EMPTY_CONTENT and node.flags & ASSISTANT}
