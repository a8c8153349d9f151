"""Shows the options of a function that takes them as `**options: Unpack[SomeTypedDict]`.

Type checkers and editors read the TypedDict. `help()`, notebooks and documentation tools read the signature:
this module writes each option into it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, ForwardRef, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def shows_options(options: type, defaults: Callable[..., Any]) -> Callable[[F], F]:
    """Replace `**options` in the signature of a function by the keys of the TypedDict `options`. The default
    values are those of the parameters of `defaults`, a class or a function."""
    parameters = inspect.signature(defaults).parameters.values()
    values = {each.name: each.default for each in parameters if each.default is not Parameter.empty}
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=values.get(name, ...), annotation=_text(annotation))
        for name, annotation in options.__annotations__.items()
    ]

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return function

    return show


def _text(annotation: object) -> object:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
