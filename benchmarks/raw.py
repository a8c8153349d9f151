"""The limit of this machine: Redis driven by hand with hiredis on a plain asyncio protocol.

Nothing is promised here: no lease, no retry, no settle that answers. It says what one Python process can
push through a socket when it does nothing else, so that ours can be read as a share of it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import hiredis
import msgspec

from headrace.core.messages.message import Envelope, decode_envelope, encode_envelope

STREAM, GROUP, CONSUMER = b"raw", b"g", b"c"


class Wire(asyncio.Protocol):
    """Replies in the order of the requests."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: list[tuple[int, asyncio.Future[list[Any]]]] = []
        self._replies: list[Any] = []
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # uvloop's is no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            self._replies.append(reply)
        while self._waiting and len(self._replies) >= self._waiting[0][0]:
            count, future = self._waiting.pop(0)
            future.set_result(self._replies[:count])
            del self._replies[:count]

    def send(self, commands: list[tuple[Any, ...]]) -> asyncio.Future[list[Any]]:
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((len(commands), future))
        self._transport.write(b"".join([hiredis.pack_command(command) for command in commands]))
        return future

    def close(self) -> None:
        self._transport.close()


async def connect(url: str) -> Wire:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    loop = asyncio.get_running_loop()
    _, wire = await loop.create_connection(Wire, place.hostname, place.port)
    return wire


async def raw_limit(url: str, scale: float) -> dict[str, float]:
    """Single XADD, pipelined XADD with encoding, and a hand-driven drain."""
    wire = await connect(url)
    await wire.send([("DEL", STREAM), ("XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM")])
    figures = await _singles(wire, max(10, int(3_000 * scale)))
    await _drain(wire)
    figures |= await _bulk_and_drain(wire, max(10, int(100_000 * scale)))
    await wire.send([("DEL", STREAM)])
    wire.close()
    return figures


def _body() -> bytes:
    return encode_envelope(
        Envelope(1, "01m7f9vj79fnjrwh4myfs88p3r", "noop", time.time_ns() // 1000, None, None, b"\x91\x90")
    )


async def _singles(wire: Wire, number: int) -> dict[str, float]:
    began = time.perf_counter()
    for _ in range(number):
        await wire.send([("XADD", STREAM, "*", "m", _body())])
    return {"enqueue one by one": number / (time.perf_counter() - began)}


async def _bulk_and_drain(wire: Wire, number: int) -> dict[str, float]:
    began = time.perf_counter()
    for start in range(0, number, 500):
        await wire.send([("XADD", STREAM, "*", "m", _body()) for _ in range(min(500, number - start))])
    enqueued = number / (time.perf_counter() - began)
    began = time.perf_counter()
    drained = await _drain(wire)
    assert drained == number
    return {"enqueue_many": enqueued, "drain no-op": number / (time.perf_counter() - began)}


async def _handler(args: tuple[Any, ...]) -> None:
    pass


async def _drain(wire: Wire) -> int:
    decode_args = msgspec.msgpack.Decoder(tuple[tuple[()]]).decode
    total = 0
    acknowledge: list[tuple[Any, ...]] = []
    while True:
        read = ("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", "500", "STREAMS", STREAM, ">")
        replies = await wire.send([*acknowledge, read])
        if replies[-1] is None:
            return total
        [[_, entries]] = replies[-1]
        ids = []
        for id, fields in entries:
            envelope = decode_envelope(fields[1])
            await _handler(decode_args(envelope.payload))
            ids.append(id)
        total += len(ids)
        acknowledge = [("XACK", STREAM, GROUP, *ids), ("XDEL", STREAM, *ids)]
