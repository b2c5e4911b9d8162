"""How far an import is: a bar on a terminal, nothing in a pipe.

Invariants:
- The bar is drawn on standard error, appears with the first report (a short import shows none) and is gone before data is
  written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID

    from transcripts.index.report import Progress


class Bar:
    """A progress bar that is made when the first report comes, and takes further imports after it is closed."""

    def __init__(self) -> None:
        self._display: Display | None = None
        self._task: TaskID | None = None

    @property
    def callback(self) -> Callable[[Progress], None] | None:
        """What Index is given to report to; None where nobody looks."""
        return self.show if sys.stderr.isatty() else None

    def show(self, progress: Progress) -> None:
        """Draw how far the import is."""
        if self._display is None or self._task is None:
            self._display = _display()
            self._task = self._display.add_task("Importing", total=progress.total)
            self._display.start()
        doing = "Importing" if progress.phase == "files" else "Indexing"
        self._display.update(self._task, description=doing, completed=progress.done, total=progress.total)

    def close(self) -> None:
        """Take the bar away."""
        if self._display is not None:
            self._display.stop()
        self._display = self._task = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _display() -> Display:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Display

    console = Console(stderr=True)
    console.width = max(40, console.width - len("^C") - 1)  # so that an echoed Ctrl-C stays on the bar's line
    return Display(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        expand=True,
    )
