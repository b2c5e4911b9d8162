"""Model of the parallel recovery (format, section 3.7).

A chain runs through one branch of a parallel reply only. For every message.id of the chain the other assistant lines of
that id, the results of its calls and the side lines below them are put back in. All functions work on the map after
bridge and relinks: `lines` in file order, `parent` and `children` by uuid.
"""

from dataclasses import dataclass, field

from tests.models.lines import Line

Lines = dict[str, Line]
Parents = dict[str, str | None]
Children = dict[str, list[str]]


@dataclass
class Reply:
    """The assistant lines of one message.id that stands on the chain."""

    group: list[str] = field(default_factory=list)  # all its lines, in file order
    last: str = ""  # its last line on the chain
    results: list[str] = field(default_factory=list)  # result lines of the group, on the chain or off it, in file order


def replies(lines: Lines, parent: Parents, chain: list[str]) -> list[Reply]:
    """The replies of the chain, by their first line on it."""
    found: dict[str, Reply] = {}
    for uuid in chain:
        message_id = lines[uuid].message_id
        if message_id is not None:
            found.setdefault(message_id, Reply()).last = uuid
    member_of: dict[str, str] = {}
    for line in lines.values():
        if line.message_id in found:
            found[line.message_id].group.append(line.uuid)
            member_of[line.uuid] = line.message_id
    for line in lines.values():
        if line.is_result:
            askers = [asker for asker in (parent[line.uuid], line.raw.get("sourceToolAssistantUUID")) if isinstance(asker, str)]
            for message_id in dict.fromkeys(member_of[asker] for asker in askers if asker in member_of):
                found[message_id].results.append(line.uuid)
    return list(found.values())


def lines_above_turns(lines: Lines, parent: Parents) -> set[str]:
    """All lines that have a real turn (an assistant or a user text) anywhere below them."""
    above: set[str] = set()
    for line in lines.values():
        if line.type == "assistant" or line.is_user_text:
            current = parent[line.uuid]
            while current is not None and current in lines and current not in above:
                above.add(current)
                current = parent[current]
    return above


def side_lines(lines: Lines, children: Children, roots: list[str], above_turns: set[str], used: set[str]) -> list[str]:
    """The off-chain side lines below the roots. A system or meta line above a real turn is another branch and stays out;
    attachments are always taken."""
    found: list[str] = []
    open_lines = list(roots)
    while open_lines:
        for uuid in children.get(open_lines.pop(), []):
            line = lines[uuid]
            if uuid in used or not line.is_side or (line.type != "attachment" and uuid in above_turns):
                continue
            used.add(uuid)
            found.append(uuid)
            open_lines.append(uuid)
    return found


def siblings_first(lines: Lines, parent: Parents, siblings: list[str], others: list[str]) -> list[str]:
    """Siblings, then results and side lines, each in file order; a result that is a sibling's parent goes before it."""
    results = {uuid for uuid in others if lines[uuid].is_result}
    ordered: dict[str, None] = {}
    for uuid in siblings:
        above = parent[uuid]
        if above is not None and above in results:
            ordered[above] = None
        ordered[uuid] = None
    for uuid in sorted(others, key=lambda uuid: lines[uuid].position):
        ordered[uuid] = None
    return list(ordered)


def merge(lines: Lines, parent: Parents, recovered: list[str], following: list[str]) -> list[str]:
    """Merge recovered lines with the on-chain results that follow, by file position."""
    merged: list[str] = []
    place = 0
    for uuid in recovered:
        line = lines[uuid]
        after = following.index(parent[uuid] or "") + 1 if line.type == "assistant" and parent[uuid] in following else 0
        while place < len(following) and (place < after or lines[following[place]].position < line.position):
            merged.append(following[place])
            place += 1
        merged.append(uuid)
    return merged + following[place:]


def following_results(lines: Lines, chain: list[str], place: int, reply: Reply) -> list[str]:
    """The results of the reply, and the side lines between and behind them, that follow directly on the chain."""
    end = place + 1
    while end < len(chain) and (chain[end] in reply.results or lines[chain[end]].is_side):
        end += 1
    return chain[place + 1 : end]


def recover(lines: Lines, parent: Parents, children: Children, chain: list[str]) -> list[str]:
    """The chain with its parallel lines."""
    above_turns = lines_above_turns(lines, parent)
    place = {uuid: number for number, uuid in enumerate(chain)}
    used = set(chain)
    inserted: dict[str, list[str]] = {}
    moved: set[str] = set()
    for reply in replies(lines, parent, chain):
        siblings = [uuid for uuid in reply.group if uuid not in used]
        if not siblings and not any(lines[uuid].calls for uuid in reply.group):
            continue
        results = [uuid for uuid in reply.results if uuid not in used]
        used.update(siblings, results)
        sides = side_lines(lines, children, reply.group + reply.results, above_turns, used)
        recovered = siblings_first(lines, parent, siblings, results + sides)
        if recovered:
            following = following_results(lines, chain, place[reply.last], reply)
            inserted[reply.last] = merge(lines, parent, recovered, following)
            moved.update(following)
    whole: list[str] = []
    for uuid in chain:
        if uuid not in moved:
            whole.append(uuid)
            whole.extend(inserted.get(uuid, []))
    return whole
