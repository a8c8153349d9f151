"""Finds the types with which a function's parameters and result are annotated."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.errors import ConfigurationError


def names_in_sight(depth: int) -> Mapping[str, Any]:
    """The local names of the function that declares a task, for annotations that name a local type."""
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else frame.f_locals


def hints_of(function: Callable[..., Any], local_names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations as types, also those that are written as text."""
    try:
        return typing.get_type_hints(function, localns=dict(local_names), include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise ConfigurationError(
            f"the annotations of {function.__qualname__} cannot be resolved: {error}; a task's types must be "
            "known where it is declared, or be importable names of its module"
        ) from error
