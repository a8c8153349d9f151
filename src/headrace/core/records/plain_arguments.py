"""The arguments of a job as plain data for people to read, with `***` for each secret."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headrace.core.encoding.codec import AppCodec, BindingCodec, check_id, form_of, unwrapped
from headrace.core.errors import InvalidPayload
from headrace.core.messages.associated_data import arguments_data
from headrace.core.messages.message import Envelope
from headrace.core.values.secret import masked

#: Why a job has no arguments to show: the history keeps them up to a size.
NOT_KEPT: Final = "the arguments are too large to be kept in the history"


class PlainArguments(msgspec.Struct, frozen=True):
    """Plain data. `problem`: why the arguments cannot be read."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    problem: str = ""


class _Arguments(msgspec.Struct, array_like=True):
    args: list[Any]
    kwargs: dict[str, Any] = {}


def plain_arguments(id: str, envelope: Envelope, codec: AppCodec | None) -> PlainArguments:
    """The arguments in an envelope, as far as they can be read."""
    if not envelope.payload:
        return PlainArguments(problem=NOT_KEPT)
    try:
        payload = opened(id, envelope, codec, arguments_data(envelope.id, envelope.task, envelope.headers))
        read = msgspec.msgpack.decode(payload, type=_Arguments, ext_hook=masked)
    except Exception as error:  # a codec may raise anything
        return PlainArguments(problem=f"the arguments cannot be read: {error}")
    return PlainArguments(tuple(read.args), read.kwargs)


def opened(id: str, envelope: Envelope, codec: AppCodec | None, associated: bytes) -> bytes:
    """The payload of the message with this id, as the codec of this app opens it."""
    if codec is None:
        form = form_of(envelope.payload)
        if form:
            raise InvalidPayload(f"it is {form}, and no codec is known here: name the app, as module:app")
        return envelope.payload
    if isinstance(codec, BindingCodec) and envelope.id:
        check_id(id, envelope.id)
    return unwrapped(envelope.payload, codec, associated)
