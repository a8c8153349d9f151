"""Log lines for a person at a terminal, or for a machine."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from headrace.cli.output.render import printable
from headrace.cli.target.option_types import setting
from headrace.observability.context import JobContext
from headrace.observability.json_logs import JsonLines
from headrace.observability.logs import one_line

F = TypeVar("F", bound=Callable[..., object])

_COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1", logging.DEBUG: "2"}


class TextFormatter(logging.Formatter):
    """The time, a short level, the text, and for which job it was written; colours only on a terminal. A
    handler may log text of other people, so characters that control a terminal become codes."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        line = printable(super().format(record))
        job_id = getattr(record, "job_id", "")
        if job_id and not hasattr(record, "signal"):  # which says so in its own words
            line += one_line(f" [{getattr(record, 'task', '')} {job_id}]")
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"\x1b[{colour}m{line}\x1b[0m" if colour else line


def log_options(note: str = "") -> Callable[[F], F]:
    """The options of a command that logs. `note` ends the help of the level."""
    level = setting(
        "log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        metavar="LEVEL",
        help=f"The least level to log: debug, info, warning or error.{note}",
    )
    form = setting(
        "log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        metavar="FORMAT",
        help="Log lines as text or json.",
    )
    return lambda command: level(form(command))


def start_logging(level: str, form: str = "text") -> None:
    """Send log lines to standard error, as `text` or as `json`."""
    handler = logging.StreamHandler(sys.stderr)
    coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    handler.setFormatter(JsonLines() if form == "json" else TextFormatter(coloured=coloured))
    handler.addFilter(JobContext())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
