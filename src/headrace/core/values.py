"""Values to bytes and back: msgspec's MessagePack, with pydantic's models where pydantic is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec

from .errors import ConfigurationError, InvalidPayload
from .secret import SECRET_CODE, Secret

#: What decoding hostile or damaged bytes can raise.
DECODE_ERRORS = (msgspec.DecodeError, RecursionError, MemoryError, ValueError, NotImplementedError, TypeError)


def _reduce(value: Any) -> Any:
    """What MessagePack does not know: pydantic's models as plain data, secrets as an extension."""
    return _reduced(value, lambda secret: _encoder.encode(secret))


def _reduce_ordered(value: Any) -> Any:
    return _reduced(value, lambda secret: _ordered.encode(secret))


def _reduced(value: Any, encode_secret: Callable[[Any], bytes]) -> Any:
    if isinstance(value, Secret):
        try:
            return msgspec.msgpack.Ext(SECRET_CODE, encode_secret(value.reveal()))
        except Exception:
            # Without the reason, which may quote the value.
            raise NotImplementedError("the value of a Secret cannot be sent") from None
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        # As it will be read again: under the names that validation knows, and without what is computed.
        return dump(mode="json", by_alias=True, round_trip=True)
    raise NotImplementedError(f"{type(value).__name__} objects cannot be sent")


def _restore(wanted: Any, value: Any) -> Any:
    if is_secret(wanted):
        return secret_of(wanted, value, _restore)
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value  # `object`, say: anything will do
    if not hasattr(wanted, "model_validate"):
        raise NotImplementedError(f"a {wanted.__name__} cannot be made from what was sent")
    try:
        return wanted.model_validate(value)
    except ValueError:
        # A strict model takes a date or an enumeration from text only when it knows that this was JSON.
        return wanted.model_validate_json(msgspec.json.encode(value))


def is_secret(wanted: Any) -> bool:
    """Whether a type is `Secret`, with or without the type of its value."""
    return wanted is Secret or get_origin(wanted) is Secret


def secret_of(
    wanted: Any, value: Any, restore: Callable[[Any, Any], Any], *, str_keys: bool = False
) -> Secret[Any]:
    """A `Secret` in the wanted type, of one or of a plain value. What does not fit is not quoted."""
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
_anything = msgspec.msgpack.Decoder(ext_hook=_extension)


def encode(value: object) -> bytes:
    """`value` as bytes; `InvalidPayload` says what in it cannot be sent."""
    try:
        return _encoder.encode(value)
    except RecursionError as error:
        raise InvalidPayload("the value is nested too deeply to be sent") from error
    except Exception as error:
        raise InvalidPayload(f"the value cannot be sent: {error}") from error


def encode_ordered(value: object) -> bytes:
    """As `encode`, with mappings and sets in a fixed order: equal values give equal bytes."""
    try:
        return _ordered.encode(value)
    except Exception as error:
        raise InvalidPayload(f"the value cannot be sent: {error}") from error


def decoder(wanted: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder into a type; `ConfigurationError` when messages cannot hold such a type."""
    try:
        return msgspec.msgpack.Decoder(wanted, dec_hook=_restore, ext_hook=_extension)
    except TypeError as error:
        raise ConfigurationError(f"{wanted!r} cannot be sent: {error}") from error


def holds_secrets(wanted: Any) -> bool:
    """Whether a value of this type may have a `Secret` in it, at any depth."""
    try:
        return _mentions_secret(msgspec.inspect.type_info(wanted), set())
    except (TypeError, ValueError, NotImplementedError):
        return False  # the decoder will say what is wrong with it


def _mentions_secret(info: Any, seen: set[int]) -> bool:
    if isinstance(info, msgspec.inspect.CustomType):
        return info.cls is Secret
    if isinstance(info, tuple):
        return any(_mentions_secret(each, seen) for each in info)
    if not isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field) or id(info) in seen:
        return False
    seen.add(id(info))  # types may hold themselves
    return any(_mentions_secret(getattr(info, name), seen) for name in info.__struct_fields__)
