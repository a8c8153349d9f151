"""Encodes values to bytes and back, as MessagePack by msgspec; also pydantic's models, if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec

from headrace.core.errors import ConfigurationError, InvalidPayload
from headrace.core.values.secret import SECRET_CODE, Secret

from .models import (
    Reducer,
    difference,
    is_model,
    is_secret_of_pydantic,
    other_kind,
    secret_of_pydantic,
    validated,
)
from .models import holds_secrets as model_holds_secrets
from .own_types import from_builtin, is_own, to_builtin

#: The `encode` of one of the two encoders below.
Encode = Callable[[Any], bytes]


def _reduce(value: Any) -> Any:
    """Reduce what MessagePack does not know: models of pydantic to plain data, secrets to an extension."""
    return _reduced(value, lambda data: _encoder.encode(data), _reducer)


def _reduce_ordered(value: Any) -> Any:
    return _reduced(value, lambda data: _ordered.encode(data), _ordered_reducer)


def _reduced(value: Any, encode: Encode, reducer: Reducer) -> Any:
    if isinstance(value, Secret) or is_secret_of_pydantic(type(value)):
        return _sealed(value, encode)
    if is_own(type(value)):
        return to_builtin(value)
    if is_model(type(value)):
        return _model(value, reducer)
    raise NotImplementedError(f"{type(value).__name__} objects cannot be sent")


def _sealed(secret: Any, encode: Encode) -> msgspec.msgpack.Ext:
    try:
        plain = secret.reveal() if isinstance(secret, Secret) else secret.get_secret_value()
        return msgspec.msgpack.Ext(SECRET_CODE, encode(plain))
    except Exception:
        # The cause is left out, because its text may quote the value.
        raise NotImplementedError("the value of a Secret cannot be sent") from None


def _model(model: Any, reducer: Reducer) -> msgspec.Raw:
    """The bytes of a model, if decoding them gives an equal model; else an error."""
    kind: type = type(model)
    # The model's own serializers are fast and mostly right, and know types that we do not. But they give sets
    # no order, and they may not mask secrets.
    dumped = None if reducer.in_order or model_holds_secrets(kind) else _as_dumped(model)
    if dumped is not None:
        return msgspec.Raw(dumped)
    try:
        return msgspec.Raw(_made_sure(model, reducer.data_of(model)))
    except RecursionError:
        raise
    except Exception as error:
        reason = error
    if reducer.in_order and not model_holds_secrets(kind) and (dumped := _as_dumped(model)) is not None:
        return msgspec.Raw(dumped)
    raise NotImplementedError(f"a {kind.__name__} would not arrive as it is: {reason}")


def _as_dumped(model: Any) -> bytes | None:
    try:
        return _made_sure(
            model, model.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
        )
    except Exception:
        return None


def _made_sure(model: Any, data: Any) -> bytes:
    encoded = _encoder.encode(data)
    arrived = validated(type(model), _anything.decode(encoded))
    if arrived != model and (found := difference(model, arrived)) is not None:
        raise ValueError(f"{found or 'it'} would be another value")
    return encoded


def _restore(wanted: Any, value: Any) -> Any:
    if is_secret(wanted):
        return secret_of(wanted, value, _restore)
    if is_own(wanted):
        return value if isinstance(value, wanted) else from_builtin(wanted, value)
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value  # for example `object`, which any value fits
    if is_secret_of_pydantic(wanted):
        return secret_of_pydantic(wanted, value)
    if not is_model(wanted):
        raise NotImplementedError(f"a {wanted.__name__} cannot be made from what was sent")
    return validated(wanted, value)


def is_secret(wanted: Any) -> bool:
    """Whether a type is `Secret`, with or without the type of its value."""
    return wanted is Secret or get_origin(wanted) is Secret


def secret_of(
    wanted: Any, value: Any, restore: Callable[[Any, Any], Any], *, str_keys: bool = False
) -> Secret[Any]:
    """A `Secret` of the wanted type, from a secret or a plain value. An error does not quote the value."""
    plain = value.reveal() if isinstance(value, Secret) else value
    inner = (get_args(wanted) or (Any,))[0]
    try:
        return Secret(msgspec.convert(plain, inner, str_keys=str_keys, dec_hook=restore))
    except Exception:
        name = inner.__name__ if isinstance(inner, type) else str(inner)
        raise ValueError(f"The value of a Secret is no `{name}`") from None


def _extension(code: int, data: memoryview) -> object:
    return Secret(_anything.decode(data)) if code == SECRET_CODE else msgspec.msgpack.Ext(code, bytes(data))


_encoder = msgspec.msgpack.Encoder(enc_hook=_reduce)
_ordered = msgspec.msgpack.Encoder(enc_hook=_reduce_ordered, order="deterministic")
_reducer = Reducer(lambda secret: _sealed(secret, _encoder.encode))
_ordered_reducer = Reducer(lambda secret: _sealed(secret, _ordered.encode), in_order=True)
_anything = msgspec.msgpack.Decoder(ext_hook=_extension)


#: Like `encode`, but errors do not say what cannot be sent.
encode_quickly = _encoder.encode


def encode(value: object) -> bytes:
    """`value` as bytes; `InvalidPayload` says what in it cannot be sent."""
    try:
        return _encoder.encode(value)
    except RecursionError as error:
        raise InvalidPayload("the value is nested too deeply to be sent") from error
    except Exception as error:
        raise InvalidPayload(f"the value cannot be sent: {error}") from error


def encode_ordered(value: object) -> bytes:
    """Like `encode`, with mappings and sets in a fixed order: equal values give equal bytes."""
    try:
        return _ordered.encode(value)
    except Exception as error:
        raise InvalidPayload(f"the value cannot be sent: {error}") from error


def check_kinds(sent: object, arrived: object) -> None:
    """Raise `InvalidPayload` when decoding turned a model into one of another class."""
    found = other_kind(sent, arrived)
    if found is not None:
        raise InvalidPayload(f"{found}: declare its own type, or send one of the declared")


def decoder(wanted: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder into a type; `ConfigurationError` when messages cannot hold such a type."""
    try:
        return msgspec.msgpack.Decoder(wanted, dec_hook=_restore, ext_hook=_extension)
    except TypeError as error:
        raise ConfigurationError(f"{wanted!r} cannot be sent: {error}") from error


def checker(decoder: msgspec.msgpack.Decoder[Any]) -> Callable[[bytes], object]:
    """Raises what the decoder raises, in less time where its type needs no hooks."""
    wanted = decoder.type
    return decoder.decode if _mentions(wanted, _any_type) else msgspec.msgpack.Decoder(wanted).decode


def _any_type(kind: type) -> bool:
    return True


def holds_secrets(wanted: Any) -> bool:
    """Whether a value of this type may have a `Secret` in it, at any depth."""
    return _mentions(wanted, model_holds_secrets)


def holds_models(wanted: Any) -> bool:
    """Whether a value of this type may have one of pydantic's models in it."""
    return _mentions(wanted, is_model)


def _mentions(wanted: Any, accept: Callable[[type], bool]) -> bool:
    """Whether this type contains, at any depth, a type unknown to msgspec that `accept` accepts."""
    try:
        return _mentioned(msgspec.inspect.type_info(wanted), accept, set())
    except (TypeError, ValueError, NotImplementedError):
        return False  # the decoder reports what is wrong with it


def _mentioned(info: Any, accept: Callable[[type], bool], seen: set[int]) -> bool:
    if isinstance(info, msgspec.inspect.CustomType):
        return accept(info.cls)
    if isinstance(info, tuple):
        return any(_mentioned(each, accept, seen) for each in info)
    if not isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field) or id(info) in seen:
        return False
    seen.add(id(info))  # types may hold themselves
    return any(_mentioned(getattr(info, name), accept, seen) for name in info.__struct_fields__)
