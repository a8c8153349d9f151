"""Encodes the arguments of a task as bytes, and decodes them into the annotated types.

The payload is `[args]` or `[args, kwargs]`. The first form is by far the most frequent: one decoder decodes
it directly into the types. The second form is decoded parameter by parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter
from typing import Any, Final, NoReturn

import msgspec

from headrace.core.encoding import encoding
from headrace.core.encoding.annotations import hints_of
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.encoding.encoding import encode_quickly
from headrace.core.errors import InvalidPayload, NewerVersion
from headrace.core.values.bounds import Count
from headrace.engine.declared.registry import EncodeArguments
from headrace.engine.running.injection.dependencies import asked_of_callers

#: The first byte of a payload that is an array of one.
ONLY_POSITIONAL = 0x91

#: The first byte of a payload that has a version: an array of three.
WITH_VERSION: Final = b"\x93"

#: An empty mapping.
NO_KWARGS: Final = b"\x80"

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

#: The payload of a call without arguments.
NO_ARGUMENTS: Final = encoding.encode(((),))

#: How msgspec names the argument of a plain payload that is wrong.
_PLACE = re.compile(r"`\$\[0\]\[(\d+)\]")
_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<not given>"})()


#: Values that hold no models.
_SCALARS = (str, int, float, bool, bytes, type(None))


def _is_exactly(value: Any, wanted: Any) -> bool:
    return type(value) is wanted or type(value) in _SCALARS


class VersionedParts(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A payload of any version; see `versions.py`."""

    args: msgspec.Raw
    kwargs: msgspec.Raw = msgspec.Raw(NO_KWARGS)
    version: Count = 1


read_parts = msgspec.msgpack.Decoder(VersionedParts).decode


class _Parts(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    args: list[msgspec.Raw]
    kwargs: dict[str, msgspec.Raw] = {}


_parts = msgspec.msgpack.Decoder(_Parts)


class Arguments:
    """Encodes and decodes the arguments of one function."""

    def __init__(self, function: Callable[..., Any], local_names: Mapping[str, Any]) -> None:
        self._function = function
        self._local_names = local_names
        signature = inspect.signature(function)
        self.signature: inspect.Signature = asked_of_callers(signature)
        # Whether the arguments hold secrets or models; None: not known yet
        self._secret: bool | None = None
        self._models = False
        self._quick = True  # its payload has no version
        self._provided = signature.parameters.keys() - self.signature.parameters.keys()
        parameters = self.signature.parameters.values()
        self._positional = [each for each in parameters if each.kind in _POSITIONAL]
        self._most = len(self._positional)
        self._least = sum(each.default is Parameter.empty for each in self._positional)
        # Required keyword-only parameters and *args are bound to the signature first, which is slower.
        self._plain = not any(
            each.kind is Parameter.VAR_POSITIONAL
            or (each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty)
            for each in parameters
        )

    @property
    def nothing(self) -> bytes | None:
        """The payload of a call without arguments; None: the function needs some."""
        return NO_ARGUMENTS if self._plain and not self._least else None

    def checked_encoder(self) -> EncodeArguments:
        """`encode` that also raises `InvalidPayload` when the worker could not decode the arguments into the
        types. It is a closure, which finds its own variables faster than attributes: a check takes hardly
        longer than what this saves."""
        least, most, is_set_up, is_short = self._least, self._most, False, False
        exact: list[type] = []
        check: Callable[[bytes], object] = self.decode

        def encode(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
            nonlocal is_set_up, is_short, exact, check
            if is_short and not kwargs and least <= len(args) <= most:
                try:
                    payload = encode_quickly((args,))
                    # Values of exactly the plain types that are wanted need no decoding, which takes longer.
                    if not exact or [*map(type, args)] != exact:
                        check(payload)
                    return payload
                except Exception:  # nosec B110 # raised below
                    pass  # the error is raised below, with the name of the parameter
            payload = self.encode(args, kwargs)
            if not is_set_up:
                is_short, exact, check = self._short_way()
                is_set_up = True
            self.decode(payload)
            return payload

        return encode

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, ordered: bool = False) -> bytes:
        """The payload; `InvalidPayload` when the arguments do not fit the parameters, or cannot be
        encoded."""
        if kwargs or not self._plain or not self._least <= len(args) <= self._most:
            args, kwargs = self._bound(args, kwargs)
        parts = (args, kwargs) if kwargs else (args,)
        if self._secret is False and not ordered:
            try:
                return encode_quickly(parts)
            except Exception:  # nosec B110 # raised below
                pass  # the error is raised below, with the name of the function
        encode = encoding.encode_ordered if ordered else encoding.encode
        try:
            payload = encode(parts)
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._function.__qualname__}: {error}") from error.__cause__
        if self._secret is None:
            self._secret = self._any_holds(encoding.holds_secrets)
            self._models = self._any_holds(encoding.holds_models)
        if self._models:
            self._check_kinds(args, kwargs, payload)
        if not self._secret:
            return payload
        # Encoded once more through the types: a parameter may say that a plain value is a secret.
        args, kwargs = self.decode(payload)
        return encode((args, kwargs) if kwargs else (args,))

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in the annotated types; `InvalidPayload` when the bytes do not fit them."""
        try:
            if self._plain and payload[0] == ONLY_POSITIONAL:
                args = msgspec.structs.astuple(self._decoder.decode(payload).args)
                if args and args[-1] is _MISSING:
                    args = tuple(value for value in args if value is not _MISSING)
                return args, {}
            return self._decode_parts(payload)
        except (*DECODE_ERRORS, IndexError) as error:
            self._refuse(error)

    def resolve(self) -> None:
        """Build the decoders now, so that wrong annotations are found before the first job."""
        if self._plain:
            _ = self._decoder
        else:
            _ = self._decoders

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations of the function as types."""
        return hints_of(self._function, self._local_names)

    def _short_way(self) -> tuple[bool, list[type], Callable[[bytes], object]]:
        """For `checked_encoder`: whether positional arguments have a short way, the types of those that are
        valid without a look at them, and what looks at others. `encode` has found secrets and models."""
        types = [self._type(each) for each in self._positional]
        is_short = self._plain and self._quick and not self._secret and not self._models
        exact = types if all(each in _SCALARS for each in types) else []
        return is_short, exact, encoding.checker(self._decoder)

    def _any_holds(self, holds: Callable[[Any], bool]) -> bool:
        return any(holds(self._type(each)) for each in self.signature.parameters.values())

    def _check_kinds(self, args: tuple[Any, ...], kwargs: dict[str, Any], payload: bytes) -> None:
        """Refuse a model of a subclass: it would lose the fields that its base class does not have."""
        types = [self._type(each) for each in self._positional]
        if not kwargs and len(args) <= len(types) and all(map(_is_exactly, args, types)):
            return
        try:
            arrived = self.decode(payload)
        except InvalidPayload:
            return  # the worker reports it
        try:
            encoding.check_kinds((args, kwargs), arrived)
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._function.__qualname__}: {error}") from None

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[Any]:
        fields = [
            (f"p{place}", self._type(each))
            if each.default is Parameter.empty
            else (f"p{place}", self._type(each), _MISSING)
            for place, each in enumerate(self._positional)
        ]
        strict = {"array_like": True, "forbid_unknown_fields": True}
        args = msgspec.defstruct("Args", fields, gc=False, **strict)  # type: ignore[arg-type]
        payload = msgspec.defstruct("Payload", [("args", args)], gc=False, **strict)  # type: ignore[arg-type]
        return encoding.decoder(payload)

    @cached_property
    def _decoders(self) -> dict[str, msgspec.msgpack.Decoder[Any]]:
        parameters = self.signature.parameters
        return {name: encoding.decoder(self._type(each)) for name, each in parameters.items()}

    def _type(self, parameter: Parameter) -> Any:
        return self.hints.get(parameter.name, Any)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for name in kwargs:
            if name in self._provided:
                raise InvalidPayload(
                    f"{self._function.__qualname__}: the worker provides {name} (Depends); it is not sent"
                )
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidPayload(f"{self._function.__qualname__}: {error}") from None
        return bound.args, bound.kwargs

    def _decode_parts(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if payload[:1] == WITH_VERSION:
            version = read_parts(payload).version
            raise NewerVersion(
                f"the arguments have version {version}; {self._function.__qualname__} of this worker has 1"
            )
        parts = _parts.decode(payload)
        args = tuple(self._decode_one(self._at(place), value) for place, value in enumerate(parts.args))
        kwargs = {name: self._decode_one(self._called(name), value) for name, value in parts.kwargs.items()}
        self.signature.bind(*args, **kwargs)
        return args, kwargs

    def _decode_one(self, parameter: Parameter, value: msgspec.Raw) -> Any:
        try:
            return self._decoders[parameter.name].decode(value)
        except DECODE_ERRORS as error:
            text = str(error)
            place = text if " - at `$" in text else f"{text} - at `$`"
            raise ValueError(place.replace("`$", f"`{parameter.name}", 1)) from error

    def _at(self, place: int) -> Parameter:
        """The parameter that takes the argument at this place."""
        if place < self._most:
            return self._positional[place]
        return self._of_kind(Parameter.VAR_POSITIONAL, f"argument {place + 1}")

    def _called(self, name: str) -> Parameter:
        """The parameter that takes the argument of this name."""
        parameter = self.signature.parameters.get(name)
        if parameter is not None and parameter.kind in _NAMED:
            return parameter
        return self._of_kind(Parameter.VAR_KEYWORD, repr(name))

    def _of_kind(self, kind: object, what: str) -> Parameter:
        for each in self.signature.parameters.values():
            if each.kind is kind:
                return each
        raise ValueError(f"there is no parameter for {what}")

    def _refuse(self, error: BaseException) -> NoReturn:
        text = _PLACE.sub(lambda found: f"`{self._positional[int(found[1])].name}", str(error))
        raise InvalidPayload(
            f"the arguments do not fit {self._function.__qualname__}{self.signature}: {text}"
        ) from error
