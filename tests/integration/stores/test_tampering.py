"""A user of the store changes signed and encrypted messages. No change gets through, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace import App, EncryptedCodec, InvalidPayload, JobStatus, RetryPolicy, SignedCodec
from headrace.core.crypto.keys import new_key
from headrace.core.messages.event_envelope import decode_event
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    Batch,
    Envelope,
    Message,
    Stream,
    decode_envelope,
    encode_envelope,
)
from headrace.core.messages.outcome import Done, Kept, Settlement
from tests.integration.programs import sealed_program
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Fleet, rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.more

KEY, STRANGE = new_key(), new_key()
DEFAULT, ORDERS = Stream("queue", "default"), Stream("topic", "orders")

#: A lease, and how long a forged result is kept: longer than a test.
LONG, LONG_US = 1e6, 10**12

#: Each example writes this many changed messages and runs one worker.
CHANGES = 15

few = settings(
    max_examples=12,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)

#: Given a genuine payload and another one, the payload that is written instead.
Change = Callable[[bytes, bytes], bytes]


class Attack:
    """An app, and a user of its store who has no key."""

    def __init__(self, url: str, make: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.namespace = new_id()
        self.url, self.make, self.run = url, make, run
        self.ran: list[Any] = []
        self.app = self._app(KEY)
        self.stranger = self._app(STRANGE)

    def _app(self, key: str) -> App:
        app = App(self.url, namespace=self.namespace, codec=self.make(key), retry=RetryPolicy.none())

        @app.task(name="pay")
        async def pay(who: str, amount: int) -> str:
            self.ran.append((who, amount))
            return f"{who} {amount}"

        @app.task(name="fine")
        async def fine(who: str, amount: int) -> None:
            self.ran.append(("fine", who, amount))

        @app.topic("orders", str).subscribe(group="billing", start="beginning")
        async def bill(order: str) -> None:
            self.ran.append(order)

        return app

    @property
    def store(self) -> Any:
        return self.app._app_loop.backend

    def genuine(self, who: str, amount: int, app: App | None = None) -> Envelope:
        """The envelope of a message that is not stored."""
        app = app or self.app
        call = app.tasks["pay"].with_(headers={"by": "web"}).call(who, amount)
        return decode_envelope(app._jobs.encode(call)[1].body)

    async def write(self, stream: Stream, messages: Sequence[Message]) -> None:
        await self.app._app_loop.opened()
        for message in messages:
            answers = await self.store.append(Batch(stream, new_id(), 1, [message]))
            assert answers[0].verdict == "accepted"

    async def work(self, stream: Stream, ids: Sequence[str]) -> None:
        """Run a worker until it has taken each message."""

        async def taken() -> bool:
            records = [await self.store.get(stream, id) for id in ids]
            return all(record.status not in (JobStatus.QUEUED, JobStatus.RUNNING) for record in records)

        async with self.app.worker(queues=[stream.name], topics=[], lease=LONG):
            await wait_until(taken, timeout=30)


@pytest.fixture(params=[SignedCodec, EncryptedCodec])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgresql", *rows()])
def attack(make: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Attack]:
    kind: str = request.param
    if kind in ("memory", "sqlite"):
        url = f"memory://{new_id()}" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    elif kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url
    else:
        fleet: Fleet = request.getfixturevalue("servers")
        url = fleet.get(kind).url
    with asyncio.Runner() as runner:
        attack = Attack(url, make, runner.run)
        yield attack
        runner.run(attack.app.close())


def flip(place: int, bits: int) -> Change:
    def change(payload: bytes, other: bytes) -> bytes:
        at = place % len(payload)
        return payload[:at] + bytes([payload[at] ^ bits]) + payload[at + 1 :]

    return change


def cut(front: int, back: int) -> Change:
    return lambda payload, other: payload[front % len(payload) + 1 :][: -back or None]


def cut_end(length: int) -> Change:
    return lambda payload, other: payload[: length % len(payload)]


def put(data: bytes) -> Change:
    return lambda payload, other: data


def append(data: bytes) -> Change:
    return lambda payload, other: payload + data


def swap(payload: bytes, other: bytes) -> bytes:
    return other


def head_of_the_other(payload: bytes, other: bytes) -> bytes:
    return other[:38] + payload[38:]


def without_signature(payload: bytes, other: bytes) -> bytes:
    return payload[38:]


changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(flip, st.integers(0, 10_000), st.integers(1, 255)),
    st.builds(cut, st.integers(0, 10_000), st.integers(0, 3)),
    st.builds(cut_end, st.integers(0, 10_000)),
    st.builds(put, st.binary(max_size=100)),
    st.builds(append, st.binary(min_size=1, max_size=100)),
    st.sampled_from([swap, head_of_the_other, without_signature, put(b"\x91\x92\xa3eve\x07")]),
)


@few
@given(drawn=st.lists(changes, min_size=CHANGES, max_size=CHANGES))
def test_no_changed_payload_runs_and_none_is_lost(attack: Attack, drawn: list[Change]) -> None:
    stream, written = Stream("queue", f"q{new_id()}"), {}
    for change in drawn:
        envelope, other = attack.genuine("ada", 7), attack.genuine("ada", 8)
        written[envelope.id] = replace(envelope, payload=change(envelope.payload, other.payload))
    attack.run(check_refused(attack, stream, written))


async def check_refused(attack: Attack, stream: Stream, written: dict[str, Envelope]) -> None:
    messages = [Message(id, each.task, encode_envelope(each)) for id, each in written.items()]
    await attack.write(stream, messages)
    attack.ran.clear()
    await attack.work(stream, list(written))
    assert attack.ran == []
    dead = {letter.id: letter for letter in await attack.app.admin.dead(queue=stream.name)}
    assert {id: letter.payload for id, letter in dead.items()} == {
        id: envelope.payload for id, envelope in written.items()
    }
    assert {letter.reason for letter in dead.values()} == {"unverified"}
    assert all(letter.error for letter in dead.values())


def test_no_payload_can_be_moved(attack: Attack) -> None:
    genuine, other, copied = (attack.genuine("ada", number) for number in range(3))
    strange = attack.genuine("eve", 9, attack.stranger)
    id = new_id()
    written = {
        genuine.id: replace(genuine, task="fine"),
        other.id: replace(other, headers={"by": "eve"}),
        id: copied,  # the whole message, under another id
        copied.id: replace(copied, headers=None),
        strange.id: strange,
    }
    attack.run(check_refused(attack, Stream("queue", f"q{new_id()}"), written))


@few
@given(flips=st.lists(st.builds(flip, st.integers(0, 10_000), st.integers(1, 255)), min_size=CHANGES))
def test_whatever_byte_of_a_message_is_changed(attack: Attack, flips: list[Change]) -> None:
    """Bytes beside the payload say when and how to run it: some of them may change. What runs is genuine."""
    stream, messages = Stream("queue", f"q{new_id()}"), []
    for change in flips:
        envelope = attack.genuine("ada", 7)
        body = change(encode_envelope(envelope), b"")
        messages.append(Message(envelope.id, "pay", body))

    async def check() -> None:
        await attack.write(stream, messages)
        attack.ran.clear()
        await attack.work(stream, [message.id for message in messages])
        assert set(attack.ran) <= {("ada", 7)}
        records = [await attack.store.get(stream, message.id) for message in messages]
        succeeded = [record for record in records if record.status is JobStatus.SUCCEEDED]
        assert len(succeeded) == len(attack.ran)
        kept = {record.id: record.body for record in records if record.status is not JobStatus.SUCCEEDED}
        assert kept == {message.id: message.body for message in messages if message.id in kept}

    attack.run(check())


@few
@given(drawn=st.lists(changes, min_size=CHANGES, max_size=CHANGES))
def test_no_changed_result_is_returned(attack: Attack, drawn: list[Change]) -> None:
    declared = attack.app._jobs.declarations.by_task["pay"]
    stream = Stream("queue", f"q{new_id()}")

    async def check() -> None:
        envelopes = {each.id: each for each in (attack.genuine("ada", 7) for _ in drawn)}
        await attack.write(stream, [Message(id, "pay", encode_envelope(e)) for id, e in envelopes.items()])
        await attack.store.declare_stream(stream, LONG_US)
        claims = await attack.store.claim(
            [stream], consumer="eve", limit=CHANGES, suspects=0, children=0, wait=1
        )
        assert len(claims) == CHANGES
        other = declared.encode_result("eve 9", new_id())
        forged = [
            change(declared.encode_result("ada 7", claim.id), other)
            for change, claim in zip(drawn, claims, strict=True)
        ]
        forged[0] = envelopes[claims[0].id].payload  # its arguments are no result
        outcomes = [
            Settlement(claim, Done(Kept(value, LONG_US))) for claim, value in zip(claims, forged, strict=True)
        ]
        await attack.store.settle(outcomes)
        for claim in claims:
            job = attack.app.job(claim.id, queue=stream.name)
            with pytest.raises(InvalidPayload):
                await job.result(timeout=5)

    attack.run(check())


@few
@given(drawn=st.lists(changes, min_size=CHANGES, max_size=CHANGES))
def test_no_changed_event_is_handled(attack: Attack, drawn: list[Change]) -> None:
    topic = attack.app.declared_topics["orders"]

    def message(text: str) -> Message:
        return topic.encoder.encode(topic.message(text, key="k", headers={"by": "web"}), ("", ""))

    async def check() -> None:
        await topic.publish("first")
        written: dict[str, bytes] = {}
        for number, change in enumerate(drawn):
            genuine, other = message("ada"), message("eve")
            envelope = decode_event(genuine.body)
            payload = change(envelope.payload, decode_event(other.body).payload)
            if number == 0:  # a whole event, under another type
                envelope, payload = replace(envelope, task="Paid"), envelope.payload
            written[genuine.id] = payload
            body = encode_envelope(replace(envelope, payload=payload))
            await attack.write(ORDERS, [replace(genuine, body=body)])
        attack.ran.clear()
        await attack.app.worker(queues=[], lease=LONG).run(burst=True)
        assert attack.ran == ["first"]
        dead = {letter.id: letter for letter in await attack.app.admin.dead(topic="orders")}
        assert {id: letter.payload for id, letter in dead.items()} == written
        assert {letter.reason for letter in dead.values()} == {"unverified"}
        await attack.app.admin.discard(topic="orders")

    attack.run(check())


async def test_children_read_and_write_them_too() -> None:
    app = sealed_program.app
    async with app, app.worker(children=1):
        job = await sealed_program.double.with_(headers={"a": "b"}).enqueue(20, plus=2)
        assert await job.result(timeout=30) == (42, job.id, True)
