"""Checks whole numbers that users write, and writes them for people."""

from __future__ import annotations

from typing import Final

from headrace.core.errors import ConfigurationError

#: The largest number that every store and client can hold.
LARGEST: Final = (1 << 31) - 1


def whole_number(name: str, value: object, *, least: int, most: int = LARGEST, unit: str = "") -> int:
    """`value`, if it is a whole number within bounds; else a `ConfigurationError` that names the option."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    number = f"a whole number of {unit}" if unit else "a whole number"
    raise ConfigurationError(f"{name} must be {number} from {least} to {most:,}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as text for an error message. Python cannot write a number of more than 4,300 digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"


def counted(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def positive_number(name: str, value: object, *, unit: str = "") -> int:
    """`whole_number` with 1 as the least."""
    return whole_number(name, value, least=1, unit=unit)
