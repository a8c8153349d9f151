"""What users write as options, checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from headrace.core.errors import ConfigurationError

#: When anything may be due at the latest: with the longest time to live after it, microseconds are still
#: whole numbers in Lua and in the scores of Redis.
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def unknown_option(where: str, name: str, known: Mapping[str, Any]) -> ConfigurationError:
    """The error for an option that does not exist."""
    return ConfigurationError(f"{where} has no option {name!r}; it has {', '.join(sorted(known))}")


def aware_datetime(option: str, value: object) -> datetime:
    """A moment that means the same everywhere."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise ConfigurationError(f"{option} must be a datetime with a time zone, not {value!r}")


def due_moment(option: str, value: object) -> datetime:
    """A moment at which something is to happen, in a future that stores can count."""
    moment = aware_datetime(option, value)
    if moment < LATEST:
        return moment
    raise ConfigurationError(f"{option} must be before {LATEST:%Y-%m-%d} UTC, not {value!r}")


def flag(option: str, value: object) -> bool:
    """True or False, and nothing else."""
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"{option} must be True or False, not {value!r}")


def checked_headers(option: str, value: object) -> dict[str, str]:
    """Headers as they are sent."""
    if isinstance(value, Mapping) and all(
        isinstance(text, str) and can_be_sent(text) for pair in value.items() for text in pair
    ):
        return dict(value)
    raise ConfigurationError(f"headers must be a mapping of text to text, not {value!r}")


def can_be_sent(text: str) -> bool:
    """Half a surrogate pair is a character in Python, and none in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
