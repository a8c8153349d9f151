"""Output: text for people, JSON for programs.

Commands print through `echo` or a `console`. Names, errors and payloads come from the store and may hold
anything. Characters that control a terminal or reverse a line are written as codes here, and nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import click
import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from headrace.core.records.job_info import JobInfo, JobProgress
from headrace.core.records.record import DeadLetter, JobStatus

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


json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
json_list_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")


class SafeConsole(Console):
    """Writes the control codes of styles, and none that are part of a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(printable(text), style)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print lines."""
    click.echo(printable(text), err=err)  # noqa: TID251


def console(*, stderr: bool = False) -> Console:
    """A console for standard output or standard error. Text is never read as markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return SafeConsole(file=stream, markup=False, highlight=False, emoji=False, width=width)


def is_terminal(stream: Literal["stdin", "stdout", "stderr"]) -> bool:
    """Whether the stream is a terminal."""
    return bool(getattr(sys, stream).isatty())


def show(view: RenderableType) -> None:
    """Print something for a person."""
    console().print(view)


def show_json(value: object) -> None:
    """One document, indented; times as ISO 8601, bytes as base 64."""
    echo(msgspec.json.format(_encoded(value), indent=2))


def compact_json(value: object) -> str:
    """A value on one line."""
    return _encoded(value)


def status_text(status: str) -> Text:
    return Text(status, style=STYLES.get(status, ""))


def number_text(number: int, style: str = "") -> Text:
    """A count; 0 is dim."""
    return Text(f"{number:,}", style=style if number else "dim")


def meter(part: float, width: int, style: str) -> Text:
    """A part of a whole, as a bar from the left."""
    full = min(width, max(round(part * width), 1 if part > 0 else 0))
    return Text("█" * full, style).append("░" * (width - full), "dim")


def short(text: str, length: int = LONGEST_CELL) -> str:
    """The beginning of a text on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def printable(text: str) -> str:
    """A text without characters that control a terminal, apart from ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """`printable`, also without ends of lines and tabs: a name cannot add a row to a table."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def safe_text(text: Text) -> Text:
    """`one_line` for a text with styles. A text that has to be changed loses the styles of its parts."""
    return text if text.plain.isprintable() else Text(one_line(text.plain), style=text.style)


def clock_time(moment: datetime, timespec: str = "seconds") -> str:
    """A time in the zone of this machine."""
    return moment.astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec=timespec)


def progress_text(progress: JobProgress) -> str:
    """The progress that a job has reported."""
    return f"{progress.fraction:.0%} {short(progress.text)}".rstrip()


def error_text(failed: JobInfo | DeadLetter) -> str:
    """The error of a job with its type; empty when it has none."""
    return f"{failed.error_type}: {failed.error}" if failed.error_type else failed.error


def _encoded(value: object) -> str:
    """JSON without characters that control a terminal. They are in strings only, where a code is the same."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_reduced).decode()
    except (TypeError, ValueError, UnicodeError):
        encoded = msgspec.json.encode(repr(value)).decode()
    return encoded if encoded.isprintable() else re.sub(r"[^ -~]", _code, encoded)


def _code(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def _reduced(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else repr(value)
