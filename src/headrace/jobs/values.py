"""Values to bytes and back: msgspec's MessagePack, with pydantic's models where pydantic is installed."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError, InvalidPayload

#: What decoding hostile or damaged bytes can raise.
DECODE_ERRORS = (msgspec.DecodeError, RecursionError, MemoryError, ValueError, NotImplementedError, TypeError)


def _reduce(value: Any) -> Any:
    """What MessagePack does not know: pydantic's models as plain data."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        # As it will be read again: under the names that validation knows, and without what is computed.
        return dump(mode="json", by_alias=True, round_trip=True)
    raise NotImplementedError(f"{type(value).__name__} objects cannot be sent")


def _restore(wanted: Any, value: Any) -> Any:
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value  # `object`, say: anything will do
    if not hasattr(wanted, "model_validate"):
        raise NotImplementedError(f"a {wanted.__name__} cannot be made from what was sent")
    try:
        return wanted.model_validate(value)
    except ValueError:
        # A strict model takes a date or an enumeration from text only when it knows that this was JSON.
        return wanted.model_validate_json(msgspec.json.encode(value))


_encoder = msgspec.msgpack.Encoder(enc_hook=_reduce)
_ordered = msgspec.msgpack.Encoder(enc_hook=_reduce, order="deterministic")


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
        return msgspec.msgpack.Decoder(wanted, dec_hook=_restore)
    except TypeError as error:
        raise ConfigurationError(f"{wanted!r} cannot be sent: {error}") from error
