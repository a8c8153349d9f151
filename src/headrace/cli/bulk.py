"""Many jobs of one task at once: a line of JSON for each, from a file or from standard input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from headrace.app import App
from headrace.core.errors import ConfigurationError, PayloadError, QueueFull
from headrace.jobs.task import Task

from .arguments import call_from_json
from .progress import Steps
from .render import counted

#: Jobs stored at once; the bar moves as often.
STEP = 500


class Stored(msgspec.Struct, frozen=True):
    """What became of them. `ids` are in the order of the lines."""

    ids: list[str]
    duplicates: int

    def __str__(self) -> str:
        fresh = f"{counted(len(self.ids) - self.duplicates, 'job')} stored"
        return f"{fresh}; {self.duplicates:,} were already there" if self.duplicates else fresh


def read_lines(path: str) -> list[str]:
    """The lines of a file, `-` for standard input, without the empty ones at its end."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            text: str = file.read()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    # Not splitlines: JSON may hold characters that it takes for the end of a line.
    return text.rstrip().split("\n") if text.strip() else []


def store_lines(app: App, task: Task[Any, Any], lines: Sequence[str], options: dict[str, Any]) -> Stored:
    """A job for each line, once all of them are known to fit."""
    # Read twice, and kept as text: a million calls would take more room than a million lines.
    for number, line in enumerate(lines, 1):
        try:
            call_from_json(task, line)
        except ConfigurationError as error:
            raise ConfigurationError(f"line {number:,}: {error}; nothing was sent") from error
    ids: list[str] = []
    duplicates = 0
    with Steps("enqueueing", len(lines)) as steps:
        for start in range(0, len(lines), STEP):
            calls = [call_from_json(task, line).with_(**options) for line in lines[start : start + STEP]]
            jobs = _sent(app, calls, start)
            ids += [job.id for job in jobs]
            duplicates += sum(job.duplicate for job in jobs)
            steps.done(len(jobs))
    return Stored(ids, duplicates)


def _sent(app: App, calls: list[Any], before: int) -> list[Any]:
    try:
        return app.sync.enqueue_many(calls)
    except QueueFull as error:
        stored = before + len(error.accepted)
        raise click.ClickException(f"{error}; {counted(stored, 'job')} were stored before that") from error
    except PayloadError as error:
        raise ConfigurationError(f"{error}; {counted(before, 'job')} were stored before that") from error
