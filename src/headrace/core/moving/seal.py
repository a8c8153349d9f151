"""The seal of a store whose content moves to another store."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.errors import StoreMoved

#: In this order. `draining`: nothing is appended or claimed; running work ends, and relays empty the outboxes
#: of the store. `moving`: the content is set aside, and only the move sees it. `moved`: the store is empty.
Stage = Literal["draining", "moving", "moved"]


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """`move` is the id of the move, and `target` the other store for people, without a password."""

    move: str
    target: str
    stage: Stage = "draining"

    def at(self, stage: Stage) -> Seal:
        return msgspec.structs.replace(self, stage=stage)

    @property
    def refusal(self) -> StoreMoved:
        """The error for a caller that uses the sealed store."""
        return moved_to(self.target)


def moved_to(target: str) -> StoreMoved:
    return StoreMoved(f"this store was moved to {target}: use the URL of that store", target=target)


def shown_target(content: bytes | None) -> str:
    """What a heartbeat answers in a store with this seal: nothing while running work ends there."""
    seal = decode_seal(content) if content else None
    return "" if seal is None or seal.stage == "draining" else seal.target


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Seal)


def encode_seal(seal: Seal) -> bytes:
    return _encoder.encode(seal)


def decode_seal(data: bytes) -> Seal:
    return _decoder.decode(data)
