"""What users write as options, checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .errors import ConfigurationError


def unknown_option(where: str, name: str, known: Mapping[str, Any]) -> ConfigurationError:
    """The error for an option that does not exist."""
    return ConfigurationError(f"{where} has no option {name!r}; it has {', '.join(sorted(known))}")


def aware_datetime(option: str, value: object) -> datetime:
    """A moment that means the same everywhere."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise ConfigurationError(f"{option} must be a datetime with a time zone, not {value!r}")


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
