"""A message on its way to another stream: what an outbox holds and a relay appends."""

from __future__ import annotations

import msgspec

from .message import HIGH, LOW, Message, Stream


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message for a stream other than the one whose step writes it. `limit` is as in `Batch`.

    The id of the message is derived from what caused it, or made once when it is written. So a relay may
    append it again, and a repeat changes nothing.
    """

    stream: Stream
    message: Message
    limit: int | None = None

    def aged(self, waited_us: int) -> Message:
        """The message after so many microseconds in the outbox. Its delay and its lifetime count from the
        moment when it was written there."""
        message = self.message
        if not (message.delay_us or message.lifetime_us or message.fresh):
            return message
        late_us = max(0, waited_us - message.delay_us)
        return msgspec.structs.replace(
            message,
            delay_us=max(0, message.delay_us - max(0, waited_us)),
            lifetime_us=max(1, message.lifetime_us - late_us) if message.lifetime_us else 0,
            fresh=False,
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Outgoing)


def encode_outgoing(outgoing: Outgoing) -> bytes:
    return _encoder.encode(outgoing)


def decode_outgoing(data: bytes) -> Outgoing:
    outgoing = _decoder.decode(data)
    if not HIGH <= outgoing.message.priority <= LOW:
        raise ValueError(f"there is no priority {outgoing.message.priority}")
    if outgoing.limit is not None and outgoing.limit < 1:
        raise ValueError(f"{outgoing.limit} is no limit of a queue or a topic")
    return outgoing
