"""Whatever bytes are stored, reading them ends with a value or with an error that is caught."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import strategies as st

from headrace import App, EncryptedCodec, InvalidPayload, JobStatus, RetryPolicy, SignedCodec
from headrace.admin.looking.contents import contents_of, read_event
from headrace.core.crypto.keys import new_key
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.event_envelope import EventEnvelope, decode_event
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    Batch,
    Envelope,
    Message,
    State,
    Stream,
    TrailEntry,
    decode_envelope,
    decode_state,
    encode_envelope,
    encode_state,
)
from headrace.core.messages.overrides import Overrides
from headrace.core.records.record import Record
from headrace.core.schedules.schedule import (
    Schedule,
    Template,
    Timing,
    decode_schedule,
    due,
    encode_schedule,
    message_at,
)
from headrace.core.topics.topic import LogEntry
from tests.support.routers import opened_router
from tests.support.waiting import wait_until

from .strategies import bombs, bounded, changed, encoded, fuzz, values

DEFAULT = Stream("queue", "default")
CODECS = [None, SignedCodec(new_key()), EncryptedCodec(new_key())]

_headers = st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
_text = st.text(max_size=8)
_moment = st.integers(0, 2**60)


@st.composite
def _genuine(draw: st.DrawFn) -> bytes:
    """A message that a producer could have made."""
    fields = (1, draw(_text), draw(st.sampled_from(["add", "other"])), draw(_moment), draw(_headers))
    overrides = draw(st.none() | st.builds(Overrides, timeout=st.floats(0, 10) | st.none()))
    payload = encoded(draw(values))
    if draw(st.booleans()):
        return encode_envelope(Envelope(*fields, overrides, payload))
    return encode_envelope(EventEnvelope(*fields, overrides, payload, key=draw(_text), source=draw(_text)))


#: Bodies of messages, more or less.
bodies = st.one_of(
    st.binary(max_size=300),
    bombs,
    values.map(encoded),
    st.lists(values, min_size=5, max_size=12).map(encoded),
    _genuine(),
    changed(lambda draw: draw(_genuine())),
)

_states = st.builds(
    State,
    failures=st.integers(0, 5),
    trail=st.lists(
        st.builds(TrailEntry, _moment, st.sampled_from(["failed", "crashed"]), _text, _text), max_size=2
    ).map(tuple),
)
_schedules = st.builds(
    Schedule,
    _text,
    _text,
    st.builds(
        Timing,
        cron=st.sampled_from(["", "* * * * *", "0 0 29 2 *", "0 9 * * mon-fri", "@daily"]) | _text,
        every_us=st.sampled_from([0, 10_000, 2**50]),
        tz=st.sampled_from(["UTC", "Europe/London", "Nowhere"]) | _text,
        catch_up=st.sampled_from(["skip", "one", "all"]),
        jitter_us=st.integers(0, 10**9),
    ),
    st.builds(Template, _text, st.binary(max_size=20)),
)


def decoding_raises_only_what_is_caught(data: bytes) -> None:
    with bounded():
        for decode in (decode_envelope, decode_event, decode_state, decode_schedule):
            try:
                decode(data)
            except DECODE_ERRORS:
                pass


test_decoding, test_decoding_at_length = fuzz(
    decoding_raises_only_what_is_caught,
    data=bodies
    | changed(lambda draw: encode_state(draw(_states)))
    | changed(lambda draw: encode_schedule(draw(_schedules))),
)


def every_body_can_be_shown(body: bytes) -> None:
    """Contents of a job and of an event, with and without a codec."""
    with bounded():
        for codec in CODECS:
            for stream in (DEFAULT, Stream("group", "orders/billing")):
                contents_of(Record(stream, "a", JobStatus.DEAD, body=body), codec)
            read_event(LogEntry(1, "a", "kind", body, 1), "orders", codec)


test_showing, test_showing_at_length = fuzz(every_body_can_be_shown, body=bodies)


def a_codec_raises_one_error(data: bytes, associated: bytes) -> None:
    for codec in CODECS[1:]:
        assert codec is not None
        try:
            codec.decode_for(data, associated)
        except InvalidPayload:
            pass


test_codecs, test_codecs_at_length = fuzz(
    a_codec_raises_one_error, data=bodies | changed(lambda draw: b"\xc1S" + b"x" * 60), associated=st.binary()
)


def every_message_gets_an_outcome(bodies: list[bytes], codec: Any) -> None:
    """Nothing is left in the queue, whatever it held, and the worker lives."""
    ran: list[int] = []
    url = f"memory://{new_id()}"
    app = App(url, codec=codec, retry=RetryPolicy.none())

    @app.task(name="add")
    async def add(number: int, other: str = "") -> None:
        ran.append(number)

    async def run() -> None:
        async with app, opened_router(url) as store:
            messages = [Message(new_id(), "add", body) for body in bodies]
            await store.append(Batch(DEFAULT, new_id(), 1, messages))
            last = await add.enqueue(7)

            async def all_taken() -> bool:
                ids = [*(message.id for message in messages), last.id]
                found = [await app.job(id).status() for id in ids]
                return not {JobStatus.QUEUED, JobStatus.RUNNING} & set(found)

            async with app.worker(lease=1e6):
                await wait_until(all_taken, timeout=30)
            assert 7 in ran

    asyncio.run(run())


test_working, test_working_at_length = fuzz(
    every_message_gets_an_outcome,
    bodies=st.lists(bodies, min_size=1, max_size=30),
    codec=st.sampled_from(CODECS),
)


def a_schedule_from_the_store_is_bounded(data: bytes, last_us: int, now_us: int) -> None:
    """The runner catches every error of a schedule. It must not have to wait for one."""
    try:
        schedule = decode_schedule(data)
    except DECODE_ERRORS:
        return
    with bounded():
        try:
            firing = due(schedule, last_us, now_us)
        except Exception:
            return
        if firing is not None:
            assert len(firing.moments) <= 100
            for moment_us in firing.moments:
                message_at(schedule, moment_us, now_us)


test_schedules, test_schedules_at_length = fuzz(
    a_schedule_from_the_store_is_bounded,
    data=_schedules.map(encode_schedule) | changed(lambda draw: encode_schedule(draw(_schedules))),
    last_us=st.integers(0, 4 * 10**15),
    now_us=st.integers(0, 4 * 10**15),
)


def test_a_state_that_is_genuine_is_read() -> None:
    """The strategies make what they should: otherwise all of the above would prove little."""
    state = State(failures=1, trail=(TrailEntry(1, "failed", "w", "x"),))
    assert decode_state(encode_state(state)) == state
    body = encode_envelope(Envelope(1, "a", "add", 1, None, None, msgspec.msgpack.encode([[1]])))
    assert decode_envelope(body).task == "add"
