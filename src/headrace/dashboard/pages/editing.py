"""Editing of arguments as JSON: whether it is possible without loss, and how they are written and read."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from headrace.admin import Contents
from headrace.core.errors import ConfigurationError
from headrace.core.values.secret import MASK
from headrace.dashboard.text import is_plain

#: Characters that a form shows for editing.
MOST: Final = 500_000


class ArgumentsForm(msgspec.Struct, frozen=True):
    """The form as the user sees it: the arguments as JSON, and what is wrong with them."""

    args: str
    kwargs: str
    problem: str = ""


def why_not_editable(contents: Contents | None) -> str:
    """Why the arguments cannot be edited. Empty: they can."""
    if contents is None or contents.problem:
        return "The arguments cannot be read."
    value = [list(contents.args), contents.kwargs]
    if _holds_mask(value):
        return "The arguments hold secrets, which are not shown here: editing would overwrite them."
    try:
        encoded = msgspec.json.encode(value)
        same = len(encoded) <= MOST and json.loads(encoded) == value
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        same = False
    return "" if same else "The arguments are too long, or hold values that JSON has not, such as bytes."


def editable(value: Any) -> str:
    """JSON to edit. Characters that a page does not show as they are become JSON escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return "".join(each if is_plain(each) else _escaped(each) for each in text)


def parse_json(text: str, name: str, wanted: type) -> Any:
    """The value that a user has written."""
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
    raise ValueError(f"{name} is not JSON")
