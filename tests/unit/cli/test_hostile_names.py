"""A store with hostile names: none of them controls the terminal of the user."""

from __future__ import annotations

import asyncio
import re
import time

import msgspec
import pytest

from headrace.core.messages.event_envelope import EventEnvelope
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    Batch,
    Message,
    Stream,
    TrailEntry,
    encode_envelope,
    group_stream,
)
from headrace.core.messages.outcome import Dead, DeadReason, Failure, Settlement
from headrace.core.records.record import RunningJob, WorkerInfo
from headrace.core.schedules.schedule import Schedule, Template, Timing, encode_schedule
from headrace.core.schedules.schedule_record import add as add_schedule
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.stores import open_store
from headrace.testing.contract.kit.heartbeats import beat
from tests.unit.cli.conftest import Shell

#: A colour, the title of a window, C1's own introducer, DEL, a text turned around, an invisible joiner.
EVIL = "evil\x1b[31m\x1b]0;title\x07\x9b2J\x7f\u202e\u2066\u200b"

#: What no terminal is to get: C0 but for ends of lines, DEL, C1, and what turns a text around or hides.
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")

JOB, LETTER = "01m7h604srfeavawdqaxzr3kg1", "01m7h604srfeavawdqaxzr3kg2"


async def tamper(url: str, place: str) -> None:
    """A task, a worker, a schedule, an event and a dead letter of that name, in a queue, a topic and a group
    that are called like the place."""
    store = open_store(url)
    await store.open()
    try:
        queue, topic = Stream("queue", place), Stream("topic", place)
        body = encode_envelope(_envelope(EVIL))
        await store.append(Batch(queue, "p", 1, [Message(LETTER, EVIL, body)]))
        [claim] = await store.claim([queue], consumer=EVIL, limit=1, suspects=0, wait=0)
        state = FRESH.failed(TrailEntry(1, "failed", EVIL, EVIL))
        dead = Dead(state, DeadReason.INVALID, Failure(EVIL, EVIL, EVIL))
        await store.settle([Settlement(claim, dead)])
        await store.append(Batch(queue, "p", 2, [Message(JOB, EVIL, body, delay_us=10**9)]))
        await store.declare_topic(topic, TopicRules())
        await store.join(group_stream(place, place), BEGINNING)
        await store.append(Batch(topic, "p", 1, [Message(new_id(), EVIL, body, key=EVIL)]))
        schedule = Schedule(EVIL, place, Timing(every_us=10**9), Template(EVIL, b"\x91\x90"))
        await store.swap_schedules([add_schedule(queue, EVIL, encode_schedule(schedule))])
        now_us = time.time_ns() // 1000
        running = (RunningJob(JOB, EVIL, now_us),)
        worker = WorkerInfo(EVIL, EVIL, 1, now_us, (place,), 1, now_us, running, (f"{place}/{place}",))
        await beat(store, worker)
    finally:
        await store.close()


def _envelope(name: str) -> EventEnvelope:
    payload = msgspec.msgpack.encode([[name]])
    return EventEnvelope(ENVELOPE_VERSION, JOB, name, 1, {name: name}, None, payload, key=name, source=name)


@pytest.fixture
def tampered(url: str) -> str:
    asyncio.run(tamper(url, EVIL))
    return url


SHOWN = [
    (EVIL, "status"),
    (EVIL, "dead list"),
    (EVIL, "workers"),
    (EVIL, "topics"),
    (EVIL, "schedules"),
    (EVIL, "jobs"),
    (EVIL, f"jobs show {JOB}"),
    (EVIL, f"dead show {LETTER}"),
    ("plain", "jobs"),
    ("plain", f"jobs show {JOB}"),
    ("plain", f"jobs show {LETTER}"),
    ("plain", f"dead show {LETTER}"),
    ("plain", "tail plain --since beginning --limit 1"),
]


@pytest.mark.parametrize(("place", "words"), [*SHOWN, (EVIL, "doctor")])
def test_what_is_shown_steers_no_terminal(url: str, headrace: Shell, place: str, words: str) -> None:
    asyncio.run(tamper(url, place))
    result = headrace(*words.split(), "--url", url)
    assert result.exit_code == 0, result.output
    assert words == "doctor" or "evil" in result.stdout
    assert STEERING.findall(result.output) == []


@pytest.mark.parametrize(("place", "words"), SHOWN)
def test_programs_get_the_same_value_by_other_characters(
    url: str, headrace: Shell, place: str, words: str
) -> None:
    asyncio.run(tamper(url, place))
    result = headrace(*words.split(), "--url", url, "--json")
    assert result.exit_code == 0, result.output
    assert STEERING.findall(result.stdout) == []
    assert EVIL in _texts(msgspec.json.decode(result.stdout))


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for each in pair for text in _texts(each)]
        case list():
            return [text for each in value for text in _texts(each)]
        case _:
            return []


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "evil"),
        ("jobs", "evil"),
        ("purge", EVIL, "--dry-run"),
        ("dead", "replay", "--all", "--dry-run"),
        ("pause", EVIL),
        ("schedules", "pause", "evil"),
        ("schedules", "pause", EVIL),
        ("topics", "pause", EVIL, EVIL),
        ("topics", "reset", "evil", "evil", "--to", "beginning"),
        ("tail", "evil", "--no-follow"),
        ("dead", "replay", "--all"),
        ("purge", EVIL),
    ],
    ids=" ".join,
)
def test_neither_do_errors_and_answers(tampered: str, headrace: Shell, words: tuple[str, ...]) -> None:
    result = headrace(*words, "--url", tampered)
    assert result.output != ""
    assert STEERING.findall(result.output) == []


def test_an_event_is_one_line_whatever_its_id(url: str, headrace: Shell) -> None:
    async def publish() -> None:
        store = open_store(url)
        await store.open()
        message = Message("one\ntwo", "?", encode_envelope(_envelope("?")))
        await store.append(Batch(Stream("topic", "plain"), "p", 1, [message]))
        await store.close()

    asyncio.run(publish())
    result = headrace("tail", "plain", "--since", "beginning", "--no-follow", "--url", url)
    assert len(result.stdout.splitlines()) == 1
