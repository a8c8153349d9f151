"""Values that a task computes from the arguments of a call: the keys of its limits, its tenant, its order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from inspect import Parameter, Signature
from typing import Any
from uuid import UUID

from headrace.core.encoding.codec import BindingCodec, fingerprint
from headrace.core.errors import ConfigurationError, InvalidPayload
from headrace.core.limits.limit import KeyOf
from headrace.core.values.secret import Secret

#: Types of values that have one text each.
TEXTS = (str, int, UUID, Decimal, date)


class CallValue:
    """One such value: that of a parameter, or of a function of the arguments."""

    def __init__(self, option: str, by: KeyOf, signature: Signature, task: str) -> None:
        self._option = option
        self._task = task
        self._compute = by if callable(by) else _of_parameter(option, by, signature, task)

    def text(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The value as text. `InvalidPayload`: there is none, and nothing is enqueued."""
        try:
            value = self._compute(*args, **kwargs)
        except Exception as error:
            raise InvalidPayload(
                f"{self._option} of {self._task} failed for this call: {type(error).__name__}: {error}"
            ) from error
        return self._as_text(value)

    def _as_text(self, value: object) -> str:
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, TEXTS):
            return str(value)
        if value is None:
            return ""
        what = (
            "a Secret, which must not be a key" if isinstance(value, Secret) else f"a {type(value).__name__}"
        )
        raise InvalidPayload(
            f"{self._option} of {self._task} gives {what}: use a text, a number, a UUID or a date"
        )


def hashed(text: str, codec: BindingCodec | None) -> str:
    """The text as it is stored. A text that is empty is no key."""
    if not text:
        return ""
    data = text.encode(errors="surrogatepass")
    return fingerprint(data) if codec is None else codec.fingerprint(data)


def _of_parameter(option: str, name: str, signature: Signature, task: str) -> Callable[..., object]:
    parameters = list(signature.parameters.values())
    found = next((each for each in parameters if each.name == name), None)
    if found is None or found.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        known = ", ".join(each.name for each in parameters) or "none"
        raise ConfigurationError(
            f"{option}={name!r} of {task} names no parameter of its function ({known}): write the "
            "name of one, or give a function of the arguments"
        )
    place = parameters.index(found) if found.kind is not Parameter.KEYWORD_ONLY else len(parameters)
    default = None if found.default is Parameter.empty else found.default

    def value(*args: Any, **kwargs: Any) -> object:
        return args[place] if place < len(args) else kwargs.get(name, default)

    return value
