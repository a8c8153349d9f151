"""The kinds of an error by name: its class and the base classes of it.

A retry policy may be stored with a job, so it names classes as text. A worker compares these names with the
names of the error's own classes. It never imports a name that it finds in a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.main_name import main_name

#: What users may write: a class, or several.
ErrorTypes = type[BaseException] | Iterable[type[BaseException]]

#: The attribute that holds the kinds of an error from another process.
CARRIED_KINDS: Final = "_headrace_kinds"


def kinds_of(error: BaseException) -> tuple[str, ...]:
    """The names of the error's class and of its base classes."""
    carried = getattr(error, CARRIED_KINDS, None)
    if isinstance(carried, tuple):
        return carried
    return tuple(_name(kind) for kind in type(error).__mro__ if kind is not object)


def named_kinds(option: str, given: object) -> tuple[str, ...]:
    """The names of the classes that a user gives for an option."""
    kinds = tuple(given) if isinstance(given, Iterable) and not isinstance(given, type | str) else (given,)
    return tuple(_checked(option, kind) for kind in kinds)


def _checked(option: str, kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return _name(kind)
    raise ConfigurationError(
        f"{option} takes classes of exceptions, not {kind!r}: write {option}=(ConnectionError, TimeoutError)"
    )


def _name(kind: type) -> str:
    # A script's own classes have the name of its file in processes that import it.
    module = main_name() if kind.__module__ == "__main__" else kind.__module__
    return f"{module}.{kind.__qualname__}"
