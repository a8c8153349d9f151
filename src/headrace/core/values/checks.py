"""Checks the options that users write, at the place where they are given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from headrace.core.errors import ConfigurationError, UnknownOption

#: The latest time at which a message may be due. Even with the longest time to live after it, microseconds
#: are still exact in Lua and in the scores of Redis.
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def unknown_option(where: str, name: str, known: Mapping[str, Any]) -> UnknownOption:
    """The error for an option that does not exist."""
    return UnknownOption(f"{where} has no option {name!r}; it has {', '.join(sorted(known))}")


def aware_datetime(option: str, value: object) -> datetime:
    """`value` if it is a datetime with a time zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise ConfigurationError(f"{option} must be a datetime with a time zone, not {value!r}")


def due_moment(option: str, value: object) -> datetime:
    """`value` if it is an aware datetime before `LATEST`."""
    moment = aware_datetime(option, value)
    if moment < LATEST:
        return moment
    raise ConfigurationError(f"{option} must be before {LATEST:%Y-%m-%d} UTC, not {value!r}")


def checked_id(value: object) -> str:
    """`value` if it is a text. A handle in its place would be no job that any store knows."""
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"an id is a text, such as job.id, not {value!r}")


def flag(option: str, value: object) -> bool:
    """`value` if it is True or False."""
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"{option} must be True or False, not {value!r}")


def checked_headers(option: str, value: object) -> dict[str, str]:
    """`value` as headers, if it maps text to text."""
    if isinstance(value, Mapping) and all(
        isinstance(text, str) and can_be_sent(text) for pair in value.items() for text in pair
    ):
        return dict(value)
    raise ConfigurationError(f"headers must be a mapping of text to text, not {value!r}")


def short_text(option: str, value: object) -> str:
    """`value` if it is a text that fits into a key or a header."""
    if isinstance(value, str) and can_be_sent(value) and 0 < len(value.encode()) <= 500:
        return value
    raise ConfigurationError(f"{option} must be a text of 1 to 500 bytes, not {value!r}")


def can_be_sent(text: str) -> bool:
    """Whether a text has a form in UTF-8. Half a surrogate pair has none, though Python takes it as text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
