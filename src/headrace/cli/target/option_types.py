"""Spans and times as types of options. A time without a zone is on the clock of this machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import click

from headrace.core.errors import ConfigurationError
from headrace.core.values.times import parse_span, parse_start

T = TypeVar("T")


def span_option(text: str) -> float:
    """Seconds from `90`, `15m`, `2h` or `3d`."""
    return _checked(parse_span, text)


def start_option(text: str) -> str | datetime:
    """Where to begin in a topic."""
    return _checked(lambda written: parse_start(written, None), text)


def _checked(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error
