"""Assistant lines that the client leaves out of a resumed chain (FORMAT.md 3.9).

Two kinds: those that are as if they had never been, and those without content, which are sent as "(no content)" and so part
what stands around them, but do not show in the chain.
"""

from __future__ import annotations

import orjson

from transcripts.sessions.tree import Node


class Answered:
    """The calls that a chain answers. Most lines hold one id, and the lists are compared as they are stored."""

    def __init__(self, chain: list[Node]) -> None:
        self._stored = {node.result_ids for node in chain if node.result_ids is not None}
        self._calls: set[str] | None = None

    def any_of(self, node: Node) -> bool:
        """Whether at least one call of a line is answered."""
        return node.call_ids in self._stored or not self._ids.isdisjoint(node.calls)

    @property
    def _ids(self) -> set[str]:
        if self._calls is None:
            self._calls = {call for stored in self._stored for call in orjson.loads(stored)}
        return self._calls


def dropped(chain: list[Node]) -> dict[int, str]:
    """The keys of the lines that are left out, with the reason."""
    assistants = [node for node in chain if node.type == "assistant"]
    answered = Answered(chain)
    speaking = {node.message_id for node in assistants if not node.thinking_only}
    last = assistants[-1] if assistants else None
    found: dict[int, str] = {}
    for node in assistants:
        is_last = node is last or (last is not None and node.message_id is not None and node.message_id == last.message_id)
        if node.call_ids and not is_last and not answered.any_of(node):
            found[node.key] = "calls without a result"
        elif node.blank:
            found[node.key] = "nothing but white space"
        elif node.thinking_only and (node.message_id is None or node.message_id not in speaking):
            found[node.key] = "thinking only"
    return found


def hidden(chain: list[Node]) -> dict[int, str]:
    """The keys of the lines that do not show in the chain but are sent."""
    return {node.key: "no content" for node in chain if node.type == "assistant" and node.empty_content}
