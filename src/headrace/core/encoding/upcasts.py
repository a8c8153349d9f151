"""Upcasts: functions that lead stored data from one version to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from headrace.core.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., object])


class Upcasts(Generic[F]):
    """The upcasts of one task or topic. `newest` is the version that its code knows."""

    def __init__(self, what: str, newest: int) -> None:
        self._what = what
        self.newest = newest
        self._functions: dict[int, F] = {}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, from_version: object, function: F) -> F:
        """Declare the function that leads from this version to the next."""
        what, newest = self._what, self.newest
        if newest == 1:
            raise ConfigurationError(
                f"{what} has version 1, so there is nothing to upcast: give it the version of its code now"
            )
        if not isinstance(from_version, int) or isinstance(from_version, bool):
            raise ConfigurationError(f"from_version must be a whole number, not {from_version!r}")
        if not 1 <= from_version < newest:
            raise ConfigurationError(
                f"{what} has version {newest}: from_version is from 1 to {newest - 1}, not {from_version}"
            )
        if not callable(function):
            raise ConfigurationError(f"an upcast is a function, not {function!r}")
        known = self._functions.setdefault(from_version, function)
        if known is not function and _place(known) != _place(function):
            raise ConfigurationError(f"{what} has two upcasts from version {from_version}: keep one of them")
        self._functions[from_version] = function
        return function

    def steps(self, version: int) -> Iterator[tuple[F, int]]:
        """The functions that lead from a version towards the newest, each with the version that it gives."""
        while version < self.newest and (function := self._functions.get(version)) is not None:
            version += 1
            yield function, version


def _place(function: Callable[..., object]) -> object:
    # A module that is imported twice declares its upcasts again.
    code = getattr(function, "__code__", None)
    return function if code is None else (code.co_filename, code.co_firstlineno)
