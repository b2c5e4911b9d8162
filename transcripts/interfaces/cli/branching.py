"""`branches`: every end that a session came to, as a picture for a person or one object a branch for a program."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from transcripts.interfaces.cli.exits import NOTHING_OR_PROBLEMS
from transcripts.interfaces.cli.options import Settings, common, named, pass_settings
from transcripts.interfaces.cli.output import console, count, one_line, say, width, write_json
from transcripts.interfaces.cli.times import iso, local

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from transcripts.sessions.branches import Branch, Stretch


@click.command()
@click.argument("session")
@common
@pass_settings
def branches(settings: Settings, session: str) -> int:
    """Draw the branches of a session: where it was rewound, compacted, or written to by two clients at once.

    The branch that is resumed comes first. Each end shows its uuid, which `resume --leaf` takes.

    \b
    Examples:
      transcripts branches latest
      transcripts resume latest --leaf 9f4c2b7e-... --last 10
    """
    with settings.opened() as index:
        name, found = named(index, session)
        ends = index.branches(name)
        stretches = index.tree(name)
    if settings.json:
        for branch in ends:
            write_json(asdict(branch) | {"started_at_iso": iso(branch.started_at), "ended_at_iso": iso(branch.ended_at)})
    elif ends:
        _draw(found.session_id or found.path, stretches, {branch.leaf: branch for branch in ends})
    if not ends:
        say("There is no conversation in this session, so there are no branches.")
        return NOTHING_OR_PROBLEMS
    return 0


def _draw(title: str, stretches: list[Stretch], ends: dict[str, Branch]) -> None:
    from rich.text import Text
    from rich.tree import Tree

    picture = Tree(Text(one_line(title), style="bold"), guide_style="dim")
    pending: list[tuple[Tree, Stretch]] = [(picture, stretch) for stretch in reversed(stretches)]
    while pending:  # a loop, since a tree may be deeper than Python recurses
        above, stretch = pending.pop()
        here = above.add(_label(stretch, ends.get(stretch.last)))
        if len(stretch.children) == 1:  # a stretch that only goes on stands on the same level
            here = above
        pending += [(here, child) for child in reversed(stretch.children)]
    console().print(picture)


def _label(stretch: Stretch, end: Branch | None) -> Text:
    from rich.text import Text

    moment = local(stretch.started_at)
    label = Text(f"{moment:%Y-%m-%d %H:%M}  " if moment else "", style="dim")
    label.append(count(stretch.length, "line"), style="cyan")
    if stretch.prompt:
        room = max(20, width() // 2)
        prompt = one_line(stretch.prompt)
        label.append(f"  {prompt if len(prompt) <= room else prompt[: room - 1] + '…'}", style="default")
    if end is not None:
        label.append(f"\n{one_line(end.leaf)}", style="bold green" if end.kind == "resumed" else "yellow")
        label.append({"resumed": "  is resumed", "compacted": "  before a compaction", "branch": "  left"}[end.kind], style="dim")
        label.append(f", {count(end.length, 'line')} in all", style="dim")
    return label
