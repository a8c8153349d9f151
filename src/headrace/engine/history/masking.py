"""Masks the secrets in the message of a job, so that the history never holds them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headrace.core.encoding.codec import AppCodec, BindingCodec
from headrace.core.messages.associated_data import arguments_data
from headrace.core.messages.message import Envelope, decode_envelope, encode_envelope
from headrace.core.records.plain_arguments import opened
from headrace.core.values.secret import SECRET_CODE, masked

#: What every payload with a secret contains: the MessagePack header of an extension with the code of secrets.
#: Other payloads may contain it, too. So a payload without it needs no decoding.
_SECRET: Final = re.compile(
    rb"[\xd4-\xd8]%(code)b|\xc7.%(code)b|\xc8..%(code)b|\xc9....%(code)b"
    % {b"code": re.escape(bytes([SECRET_CODE]))},
    re.DOTALL,
)

_encode = msgspec.msgpack.Encoder().encode


def masked_body(id: str, body: bytes, codec: AppCodec | None, most: int | None) -> bytes:
    """The message with `***` in place of each secret. Its arguments are left out when they have more than
    `most` bytes. Raises any error when the message cannot be read."""
    if codec is None and (most is None or len(body) <= most) and _SECRET.search(body) is None:
        return body  # as nearly always
    envelope = decode_envelope(body)
    if most is not None and len(envelope.payload) > most:
        return encode_envelope(msgspec.structs.replace(envelope, payload=b""))
    associated = arguments_data(envelope.id, envelope.task, envelope.headers)
    payload = opened(id, envelope, codec, associated)
    if _SECRET.search(payload) is None:
        return body
    return encode_envelope(_with(envelope, _without_secrets(payload), codec, associated))


def _without_secrets(payload: bytes) -> bytes:
    plain: Any = msgspec.msgpack.decode(payload, ext_hook=masked)
    return _encode(plain)


def _with(envelope: Envelope, payload: bytes, codec: AppCodec | None, associated: bytes) -> Envelope:
    """The envelope with another payload, as the codec of the app writes it."""
    if isinstance(codec, BindingCodec):
        payload = codec.encode_for(payload, associated)
    elif codec is not None:
        payload = codec.encode(payload)
    return msgspec.structs.replace(envelope, payload=payload)
