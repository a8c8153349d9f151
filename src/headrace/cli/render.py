"""How things look: tables for people, JSON for programs, nothing that a terminal would obey."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import Any, Literal

import click
import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from headrace.core.info import JobProgress
from headrace.core.record import JobStatus

#: Columns of a table that goes to a file or a pipe: wide enough that nothing a program looks for is cut.
PIPE_WIDTH = 250

#: An error in a table is cut to this many characters, also where there is more room.
LONGEST_CELL = 100

STYLES: dict[str, str] = {
    JobStatus.RUNNING: "green",
    JobStatus.SUCCEEDED: "green",
    JobStatus.RETRYING: "yellow",
    JobStatus.DEAD: "red",
    JobStatus.CANCELLED: "dim",
    JobStatus.EXPIRED: "dim",
}


def console(*, stderr: bool = False) -> Console:
    """Where people look. Text is never read as markup: it may be a user's."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def is_terminal(stream: Literal["stdin", "stdout", "stderr"]) -> bool:
    """Whether a person sits there."""
    return bool(getattr(sys, stream).isatty())


def show(view: RenderableType) -> None:
    """Print something for a person."""
    console().print(view)


def show_json(value: object) -> None:
    """One document, indented; times as ISO 8601, bytes as base 64."""
    click.echo(msgspec.json.format(_encoded(value), indent=2).decode())


def json_line(value: object) -> str:
    """One document on one line, for programs."""
    return _encoded(value).decode()


def compact_json(value: object) -> str:
    """A value on one line."""
    return printable(_encoded(value).decode())


def status_text(status: str) -> Text:
    return Text(status, style=STYLES.get(status, ""))


def number_text(number: int, style: str = "") -> Text:
    """A count; nothing is said in colour about none."""
    return Text(f"{number:,}", style=style if number else "dim")


def short(text: str, length: int = LONGEST_CELL) -> str:
    """The beginning of a text on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def printable(text: str) -> str:
    """A text of which no character steers a terminal; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def clock_time(moment: datetime, timespec: str = "seconds") -> str:
    """A moment on the reader's own clock."""
    return moment.astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec=timespec)


def progress_text(progress: JobProgress) -> str:
    """How far a job has come, in its own words."""
    return f"{progress.fraction:.0%} {short(progress.text)}".rstrip()


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_reduced)
    except (TypeError, ValueError, UnicodeError):
        return msgspec.json.encode(repr(value))


def _reduced(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else repr(value)
