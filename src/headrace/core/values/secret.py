"""The `Secret` type: a value that is masked wherever people could read it by accident."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, get_args

import msgspec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: The MessagePack extension under which secrets are sent. A reader masks it without knowing the task.
SECRET_CODE = 83

#: The text in place of a secret wherever people read.
MASK = "***"


class Secret(Generic[T_co]):
    """Wraps an argument that is masked wherever it could be read: texts, logs, errors, listings.

    As a parameter's type, `token: Secret[str]`, it arrives wrapped; `token.reveal()` gives the value. It is
    masked, not encrypted: a program that can read the store's bytes can read it. To encrypt, use
    `App(codec=EncryptedCodec(keys))`.
    """

    __slots__ = ("_value",)
    _value: T_co

    def __init__(self, value: T_co) -> None:
        object.__setattr__(self, "_value", value)

    def reveal(self) -> T_co:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __format__(self, specification: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return bool(self._value == other._value) if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._value,)  # for copies, such as those of `dataclasses.asdict`

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """As a field of a pydantic model: takes a secret or a plain value, and is masked in JSON."""
        from pydantic_core import PydanticCustomError, core_schema

        [inner] = get_args(source) or (Any,)

        def wrap(value: Any, validate: Callable[[Any], T]) -> Secret[T]:
            try:
                return Secret(validate(value.reveal() if isinstance(value, Secret) else value))
            except ValueError:
                name = inner.__name__ if isinstance(inner, type) else str(inner)
                raise PydanticCustomError(
                    "secret", "The value of a Secret is no `{name}`", {"name": name}
                ) from None

        return core_schema.no_info_wrap_validator_function(
            wrap,
            handler.generate_schema(inner),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda secret, info: MASK if info.mode == "json" else secret, info_arg=True
            ),
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")


def masked(code: int, data: memoryview) -> object:
    """The decoding hook for code that only shows messages: secrets stay masked."""
    return MASK if code == SECRET_CODE else msgspec.msgpack.Ext(code, bytes(data))
