"""Types of users that messages can hold: for each, a function to plain data and one back.

They hold for the whole process, because decoders are made in many places, and a type has one form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headrace.core.errors import ConfigurationError

#: A function that makes plain data of a value, and one that makes the value again.
TypeEncoder = tuple[Callable[[Any], Any], Callable[[Any], Any]]
Encoders = Mapping[type[Any], TypeEncoder]

_own: Final[dict[type[Any], TypeEncoder]] = {}


def add_encoders(encoders: Encoders) -> None:
    """Let messages hold values of these types."""
    if not isinstance(encoders, Mapping):
        raise ConfigurationError(f"encoders maps types to two functions, not {encoders!r}")
    for kind, functions in encoders.items():
        checked = _checked(kind, functions)
        known = _own.get(kind, checked)
        if _code_of(known) != _code_of(checked):
            raise ConfigurationError(
                f"{kind.__qualname__} has other encoders already: use the same functions in all apps"
            )
        _own[kind] = checked


def is_own(kind: Any) -> bool:
    """Whether a type, or a class that it is derived from, has encoders."""
    return _encoder_of(kind) is not None


def to_builtin(value: Any) -> Any:
    """The plain data of a value whose type has encoders."""
    encoder = _encoder_of(type(value))
    assert encoder is not None
    return encoder[0](value)


def from_builtin(wanted: Any, data: Any) -> Any:
    """The value of a type that has encoders. Every error is a `ValueError`, which refuses the payload."""
    encoder = _encoder_of(wanted)
    assert encoder is not None
    try:
        return encoder[1](data)
    except Exception as error:
        raise ValueError(f"no {wanted.__name__} can be made ({type(error).__name__}: {error})") from error


def _encoder_of(kind: Any) -> TypeEncoder | None:
    if not _own or not isinstance(kind, type):
        return None
    return next((_own[each] for each in kind.__mro__ if each in _own), None)


def _code_of(functions: TypeEncoder) -> list[object]:
    """What is equal for functions that one line makes again and again, such as lambdas in a function that
    makes an app."""
    return [getattr(each, "__code__", each) for each in functions]


def _checked(kind: object, functions: object) -> TypeEncoder:
    if not isinstance(kind, type):
        raise ConfigurationError(f"encoders are for types, such as {{Point: (to, from_)}}, not for {kind!r}")
    if not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
        raise ConfigurationError(f"{kind.__qualname__} can be sent as it is: leave it out of encoders")
    match functions:
        case (to, back) if callable(to) and callable(back):
            return to, back
    raise ConfigurationError(
        f"{kind.__qualname__} needs two functions, (to_builtin, from_builtin), not {functions!r}"
    )
