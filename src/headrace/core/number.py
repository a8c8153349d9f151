"""Whole numbers as users write them."""

from __future__ import annotations

from .errors import ConfigurationError


def positive_number(name: str, value: object) -> int:
    """`value`, if it is a whole number of 1 or more; else a `ConfigurationError` that names the option."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ConfigurationError(f"{name} must be a whole number of 1 or more, not {value!r}")
