"""The arguments of a batch task: a job has one element of the list that the function takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter
from typing import Any, get_args, get_origin

from headrace.core.encoding.annotations import hints_of
from headrace.core.encoding.upcasts import Upcasts
from headrace.core.errors import ConfigurationError
from headrace.engine.running.injection.dependencies import asked_of_callers

from .versions import Upcast, VersionedArguments


class BatchArguments(VersionedArguments):
    """Encodes and decodes one element. The annotations of the function are those of lists."""

    def __init__(
        self, function: Callable[..., Any], local_names: Mapping[str, Any], upcasts: Upcasts[Upcast]
    ) -> None:
        parameters = list(asked_of_callers(inspect.signature(function)).parameters.values())
        if len(parameters) != 1 or parameters[0].kind not in (
            Parameter.POSITIONAL_ONLY,
            Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise ConfigurationError(
                f"{function.__qualname__} has batch= and must take one list: write "
                f"def {function.__name__}(items: list[Item])"
            )
        super().__init__(function, local_names, upcasts)
        self._name = parameters[0].name
        self._check_annotation()

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The element alone. A caller that has not the code of the task may have sent it by its name."""
        args, kwargs = super().decode(payload)
        return (*args, *kwargs.values()), {}

    def resolve(self) -> None:
        super().resolve()
        _ = self.hints

    def _check_annotation(self) -> None:
        """Check the annotation now, unless it names something that is defined later."""
        try:
            hints_of(self._function, self._local_names)
        except ConfigurationError:
            return
        _ = self.hints

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations of one element, and of its result."""
        hints = dict(super().hints)
        hints[self._name] = self._element(hints.get(self._name, list[Any]))
        returns = hints.get("return", Any)
        hints["return"] = get_args(returns)[0] if get_origin(returns) is list else Any
        return hints

    def _element(self, hint: Any) -> Any:
        if get_origin(hint) is list:
            return get_args(hint)[0]
        if hint in (list, Any):
            return Any
        raise ConfigurationError(
            f"{self._function.__qualname__} has batch= and must take a list of elements: write "
            f"{self._name}: list[Item], not {hint}"
        )
