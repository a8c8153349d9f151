"""Log lines for a person at a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from headrace.cli.worker.logging import TextFormatter, start_logging


@pytest.fixture
def root_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(level: int, text: str = "stopped after 3 jobs") -> logging.LogRecord:
    return logging.LogRecord("headrace", level, "file", 1, text, None, None)


def test_a_line_has_the_time_the_level_and_the_text() -> None:
    line = TextFormatter(coloured=False).format(record(logging.WARNING))
    time, level, text = line.split(maxsplit=2)
    assert len(time) == len("12:34:56")
    assert (level, text) == ("WARNING", "stopped after 3 jobs")


def test_colours_are_for_what_stands_out() -> None:
    lines = TextFormatter(coloured=True)
    assert lines.format(record(logging.ERROR)).startswith("\x1b[31m")
    assert "\x1b" not in lines.format(record(logging.INFO))
    assert "\x1b" not in TextFormatter(coloured=False).format(record(logging.ERROR))


def test_the_name_of_a_job_steers_no_terminal() -> None:
    line = record(logging.INFO)
    line.job_id, line.task = "\x9b2J\x1b[31m", "\u202eevil\n"
    assert TextFormatter(coloured=False).format(line).endswith(r" [\u202eevil\n \x9b2J\x1b[31m]")


def test_what_a_handler_logs_steers_no_terminal() -> None:
    line = record(logging.INFO, "got \x9b2J\x1b[31m\u202eevil\r\tas it is\nand more")
    shown = TextFormatter(coloured=False).format(line)
    assert shown.endswith("got \\x9b2J\\x1b[31m\\u202eevil\\r\tas it is\nand more")


@pytest.mark.usefixtures("root_restored")
def test_lines_go_to_standard_error_from_the_level_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    start_logging("warning")
    logging.getLogger("headrace").info("quiet")
    logging.getLogger("headrace").warning("loud")
    captured = capsys.readouterr()
    assert "loud" in captured.err
    assert "quiet" not in captured.err
    assert captured.out == ""
