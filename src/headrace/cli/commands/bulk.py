"""Many jobs of one task at once: a line of JSON for each, from a file or from standard input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from headrace.app import App
from headrace.cli.output.progress import Steps
from headrace.cli.output.render import counted
from headrace.cli.target.arguments import call_from_json
from headrace.core.errors import ConfigurationError, HeadraceError, PayloadError, QueueFull
from headrace.jobs.job import Job
from headrace.jobs.task import Call, Task

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
    """The lines of a file, `-` for standard input."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            text: str = file.read()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    # Not splitlines: JSON may hold characters that it takes for the end of a line.
    return text.split("\n")


def store_lines(app: App, task: Task[Any, Any], lines: Sequence[str], options: dict[str, Any]) -> Stored:
    """A job for each line that is not empty, once all of them are known to fit."""
    _check(task, lines)
    lines = [line for line in lines if line.strip()]
    stored: list[Job[Any]] = []
    try:
        with Steps("enqueueing", len(lines)) as steps:
            for start in range(0, len(lines), STEP):
                calls = [call_from_json(task, line).with_(**options) for line in lines[start : start + STEP]]
                stored += _sent(app, calls, start)
                steps.reached(len(stored))
    except KeyboardInterrupt:
        raise click.ClickException(
            f"stopped; of {counted(len(lines), 'job')} at least {len(stored):,} are stored"
        ) from None
    return Stored([job.id for job in stored], sum(job.duplicate for job in stored))


def _check(task: Task[Any, Any], lines: Sequence[str]) -> None:
    # Read here and again later, and kept as text: a million calls would take more room than a million lines.
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                call_from_json(task, line)
        except ConfigurationError as error:
            raise ConfigurationError(f"line {number:,}: {error}; nothing was sent") from error


def _sent(app: App, calls: list[Call[Any]], before: int) -> list[Job[Any]]:
    try:
        return app.sync.enqueue_many(calls)
    except QueueFull as error:
        raise click.ClickException(_told(error, before + len(error.accepted))) from error
    except PayloadError as error:
        raise ConfigurationError(_told(error, before)) from error
    except HeadraceError as error:
        raise click.ClickException(_told(error, before)) from error


def _told(error: HeadraceError, before: int) -> str:
    """Lines are stored in their order, so that whoever reads this knows where to go on."""
    return f"{error}; stored before that: {counted(before, 'job')}"
