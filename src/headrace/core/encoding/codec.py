"""The user's codec, which changes payloads on their way to the store: compression, signing, encryption."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Final, Protocol

from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload

#: The first byte of a payload that a `BindingCodec` made. No MessagePack value begins with it.
BOUND_MARK: Final = 0xC1

#: The second byte of such a payload: how it was made.
BOUND_FORMS: Final = {ord("S"): "signed", ord("E"): "encrypted"}


class Codec(Protocol):
    """Turns encoded arguments and results into the bytes that are stored, and back.

    For bytes that it does not accept, `decode` raises any exception; such a job goes to the dead letters with
    its bytes. Ids, task names and headers stay readable.
    """

    def encode(self, payload: bytes, /) -> bytes:
        """The bytes to store."""
        ...

    def decode(self, data: bytes, /) -> bytes:
        """The payload that `encode` was given."""
        ...


class BindingCodec(ABC):
    """A codec that binds each payload to the message that it belongs to.

    `associated` describes that message: `core/messages/associated_data.py`. The bytes of one message are
    refused in another one.
    """

    @abstractmethod
    def encode_for(self, payload: bytes, associated: bytes, /) -> bytes:
        """The bytes to store."""

    @abstractmethod
    def decode_for(self, data: bytes, associated: bytes, /) -> bytes:
        """The payload; `UnverifiedPayload` for all bytes but those that `encode_for` made for this
        message."""

    def fingerprint(self, payload: bytes, /) -> str:
        """A short text that is the same for equal payloads. Unique keys are made of it."""
        return fingerprint(payload)


#: What an app takes as its codec.
AppCodec = Codec | BindingCodec


def fingerprint(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=16).hexdigest()


def binding(codec: AppCodec | None) -> BindingCodec | None:
    """The codec, if it binds payloads to their messages."""
    return codec if isinstance(codec, BindingCodec) else None


def unwrapped(data: bytes, codec: AppCodec | None, associated: bytes = b"") -> bytes:
    """The payload behind the app's codec; `InvalidPayload` when the codec refuses the bytes."""
    if codec is None:
        return data
    if isinstance(codec, BindingCodec):
        return codec.decode_for(data, associated)
    try:
        return codec.decode(data)
    except Exception as error:
        raise InvalidPayload(f"the app's codec refused the bytes: {error}") from error


def form_of(data: bytes) -> str:
    """How a `BindingCodec` made these bytes: signed or encrypted. Empty: none made them."""
    return BOUND_FORMS.get(data[1], "") if len(data) > 1 and data[0] == BOUND_MARK else ""


def check_id(id: str, written: str) -> None:
    """Refuse a whole message that was copied under another id."""
    if id != written:
        raise UnverifiedPayload("the message was written under another id")


def checked_codec(codec: AppCodec | None) -> AppCodec | None:
    """The codec of an app, if it has the two methods."""
    if isinstance(codec, type):
        raise ConfigurationError(f"codec= takes a codec, not a class: make one with {codec.__name__}(...)")
    if (
        codec is None
        or isinstance(codec, BindingCodec)
        or (callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None)))
    ):
        return codec
    raise ConfigurationError(f"a codec has encode(bytes) and decode(bytes); {codec!r} has not")
