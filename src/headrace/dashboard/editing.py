"""Whether arguments can be edited as JSON without harm to what is not edited, and how they are written."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from headrace.admin import Contents
from headrace.core.errors import ConfigurationError
from headrace.core.secret import MASK

from .text import is_plain

#: Characters that a form offers for editing.
MOST: Final = 500_000


class Draft(msgspec.Struct, frozen=True):
    """What stands in the form: the arguments as JSON, and what is wrong with them."""

    args: str
    kwargs: str
    problem: str = ""


def why_not(contents: Contents | None) -> str:
    """What stands against editing; empty: nothing does."""
    if contents is None or contents.problem:
        return "Its arguments cannot be read."
    value = [list(contents.args), contents.kwargs]
    if _holds_mask(value):
        return "It carries secrets, which are not shown here: editing would overwrite them."
    try:
        encoded = msgspec.json.encode(value)
        same = len(encoded) <= MOST and json.loads(encoded) == value
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        same = False
    return "" if same else "Its arguments are too long, or hold what JSON does not know, such as bytes."


def editable(value: Any) -> str:
    """JSON to edit. What a page would not show as it is stands as JSON's own code for it."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return "".join(each if is_plain(each) else _escaped(each) for each in text)


def read(text: str, name: str, wanted: type) -> Any:
    """What somebody has written."""
    try:
        value = json.loads(text or ("[]" if wanted is list else "{}"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, wanted):
        raise ConfigurationError(f"{name} must be a JSON {'array' if wanted is list else 'object'}")
    return value


def _holds_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_mask(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(map(_holds_mask, value))
    return bool(value == MASK)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
