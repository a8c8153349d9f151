"""The arguments of a job under the names of their parameters, as far as the app knows its task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Any, Final

from headrace.admin import Contents
from headrace.app import App

_PLACED: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def named(app: App, task: str, contents: Contents) -> Iterator[tuple[str, Any]]:
    """Each with its name, or with its place: `[0]` for the first of a task that is not known here."""
    known = app.tasks.get(task)
    names = _names(known) if known else []
    for place, value in enumerate(contents.args):
        yield names[place] if place < len(names) else f"[{place}]", value
    yield from contents.kwargs.items()


def _names(function: Callable[..., Any]) -> list[str]:
    """Those that have a place of their own; `*args` has not."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in _PLACED]
