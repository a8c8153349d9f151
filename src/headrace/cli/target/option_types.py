"""Options that the environment may set too, and spans and times as types of options. A time without a zone is
on the clock of this machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypedDict, TypeVar, Unpack

import click

from headrace.core.errors import ConfigurationError
from headrace.core.values.times import parse_span, parse_start

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class OptionAttributes(TypedDict, total=False):
    """The keyword arguments of `click.option` that are used here."""

    help: str
    metavar: str
    type: click.ParamType[object] | Callable[[str], object]
    default: object
    is_flag: bool
    show_envvar: bool
    shell_complete: Callable[[click.Context, click.Parameter, str], list[str]]


def setting(
    name: str, *, prefix: str = "HEADRACE", **attributes: Unpack[OptionAttributes]
) -> Callable[[F], F]:
    """An option that the environment may set too: `--log-level` by HEADRACE_LOG_LEVEL."""
    envvar = f"{prefix}_{name.replace('-', '_').upper()}"
    return click.option(f"--{name}", envvar=envvar, show_default=True, **attributes)


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
