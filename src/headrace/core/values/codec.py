"""The user's codec, which changes payloads on their way to the store: compression, signing, encryption."""

from __future__ import annotations

from typing import Protocol

from headrace.core.errors import ConfigurationError, InvalidPayload


class Codec(Protocol):
    """Turns encoded arguments and results into the bytes that are stored, and back.

    For bytes that it does not accept, `decode` raises any exception; such a job goes to the dead letters with
    its bytes. Ids, task names and headers stay readable.
    """

    def encode(self, payload: bytes, /) -> bytes: ...
    def decode(self, data: bytes, /) -> bytes: ...


def unwrapped(data: bytes, codec: Codec | None) -> bytes:
    """The payload behind the app's codec; `InvalidPayload` when the codec refuses the bytes."""
    if codec is None:
        return data
    try:
        return codec.decode(data)
    except Exception as error:
        raise InvalidPayload(f"the app's codec refused the bytes: {error}") from error


def checked_codec(codec: Codec | None) -> Codec | None:
    """The codec of an app, if it has the two methods."""
    if codec is None or (
        callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None))
    ):
        return codec
    raise ConfigurationError(f"a codec has encode(bytes) and decode(bytes); {codec!r} has not")
