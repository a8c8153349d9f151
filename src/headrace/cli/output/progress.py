"""The progress of long work: a bar on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .render import console, echo, is_terminal

#: Seconds between two lines where there is no terminal.
LINE_EVERY = 2.0


class ProgressBar:
    """`with ProgressBar("replaying", 10_000) as steps: ... steps.done(200)`, on standard error."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._count = 0
        self._written_at = time.monotonic()
        self._bar = _bar() if is_terminal("stderr") else None
        self._task = self._bar.add_task(what, total=total) if self._bar else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def done(self, number: int) -> None:
        """`number` more are done."""
        self.reached(self._count + number)

    def reached(self, count: int) -> None:
        """`count` are done in all."""
        self._count = count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=count)
        elif time.monotonic() - self._written_at >= LINE_EVERY:
            self._written_at = time.monotonic()
            echo(f"{self._what}: {count:,} of {self._total:,}", err=True)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
