"""Numbers that no clock and no store can count: refused where they are written, dead where they arrive."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace import App, ConfigurationError, JobStatus, RetryLater, RetryPolicy, Snooze
from headrace.core.messages.claim import Report
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import ENVELOPE_VERSION, Batch, Message, Stream
from headrace.core.schedules.schedule import Schedule, Template, Timing, encode_schedule
from headrace.core.schedules.schedule_record import add as add_schedule
from headrace.core.values.durations import LONGEST
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import drain

NAN, INFINITE = float("nan"), float("inf")
WILD = [NAN, INFINITE, -INFINITE, -1.0, 1e13, 1e300, -1, 2**62, 2**64 - 1]
#: What users write may be larger than any message can hold.
WRITTEN = [*WILD, 10**30, pytest.param(10**5000, id="of 5,001 digits"), True]

wild = pytest.mark.parametrize("number", WILD)
written = pytest.mark.parametrize("number", WRITTEN)


# --- where they are written -----------------------------------------------------------------------------


@written
@pytest.mark.parametrize("option", ["delay", "timeout", "expires", "result_ttl", "unique_until"])
async def test_a_call_refuses_it_and_names_the_bound(app: App, option: str, number: Any) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    with pytest.raises(ConfigurationError, match=f"{option} must be .*1,000,000,000"):
        see.with_(**{option: number})


@written
@pytest.mark.parametrize("field", ["base", "cap"])
def test_a_policy_refuses_it_however_it_is_made(field: str, number: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{field} must be .*1,000,000,000"):
        RetryPolicy("fixed", 3, **{field: number})
    with pytest.raises(ConfigurationError, match=f"{field} must be .*1,000,000,000"):
        msgspec.structs.replace(RetryPolicy.fixed(3, 1.0), **{field: number})


@pytest.mark.parametrize("number", [-1, 2**31, 2**62, 1.5, NAN, True])
def test_a_policy_refuses_so_many_retries(number: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"max_retries must be .* from 0 to 2,147,483,647"):
        RetryPolicy("fixed", number, 1.0)


def test_a_policy_refuses_a_kind_that_there_is_not() -> None:
    kind: Any = "linear"
    with pytest.raises(ConfigurationError, match="kind must be one of none, fixed, exponential"):
        RetryPolicy(kind, 3, 1.0)


@pytest.mark.parametrize("directive", [Snooze, RetryLater])
@wild
async def test_a_handler_that_asks_for_it_fails_like_any_other(
    app: App, directive: type[Snooze | RetryLater], number: Any
) -> None:
    @app.task(name="see", retry=RetryPolicy.fixed(1, 0))
    async def see(*, construct: bool) -> None:
        if construct:
            raise directive(number)
        error = directive(1.0)
        error.delay = number
        raise error

    jobs = [await see.enqueue(construct=construct) for construct in (True, False)]
    await drain(app)
    for job in jobs:
        info = await job.info()
        assert (info.status, info.reason, info.failures) == (JobStatus.DEAD, "exhausted", 2)
        assert "delay must be seconds or a timedelta, from 0 to 1,000,000,000" in info.error


# --- where they arrive ----------------------------------------------------------------------------------


def overrides(**given: Any) -> list[Any]:
    """Retry policy, timeout, time to live and due time, as a message carries them."""
    return [given.get(name) for name in ("retry", "timeout", "result_ttl")] + [given.get("due_us", 0)]


HOSTILE = {
    "timeout": lambda number: overrides(timeout=number),
    "result_ttl": lambda number: overrides(result_ttl=number),
    "due_us": lambda number: overrides(due_us=number),
    "max_retries": lambda number: overrides(retry=["fixed", number, 1.0, 1.0, False]),
    "base": lambda number: overrides(retry=["fixed", 3, number, 1.0, False]),
    "cap": lambda number: overrides(retry=["exponential", 3, 1.0, number, False]),
    "factor": lambda number: overrides(retry=["exponential", 3, 1.0, 1.0, False, number]),
}


async def put(store: InterceptedStore, *bodies: bytes) -> None:
    """Store messages as they are."""
    messages = [Message(new_id(), "see", body) for body in bodies]
    await store.append(Batch(Stream("queue", "default"), new_id(), 1, messages))


def body(*, enqueued_us: Any = 1, given: list[Any] | None = None) -> bytes:
    payload = msgspec.msgpack.encode([[]])
    return msgspec.msgpack.encode([ENVELOPE_VERSION, new_id(), "see", enqueued_us, None, given, payload])


@wild
@pytest.mark.parametrize("field", [*HOSTILE, "enqueued_us"])
async def test_it_is_dead_and_the_others_run(
    app: App, store: InterceptedStore, field: str, number: Any
) -> None:
    @app.task(name="see")
    async def see() -> int:
        raise ValueError("it is to be tried again, if anybody believes what it says")

    @app.task(name="well")
    async def well() -> int:
        return 1

    bad = body(enqueued_us=number) if field == "enqueued_us" else body(given=HOSTILE[field](number))
    await put(store, bad)
    jobs = [await well.enqueue() for _ in range(21)]
    await drain(app)
    assert [await job.result() for job in jobs] == [1] * 21
    (letter,) = await app.admin.dead()
    assert (letter.reason, letter.task) == ("undecodable", "see")


async def test_schedules_that_nobody_can_compute_are_listed_beside_the_others(
    app: App, store: InterceptedStore
) -> None:
    @app.every(60)
    @app.task(name="well")
    async def well() -> None: ...

    queue, template = Stream("queue", "default"), Template("see", b"\x91\x90")
    await well.enqueue()
    odd = {"words": Timing(cron="now and then"), "zone": Timing(cron="* * * * *", tz="Mars")}
    for name, timing in odd.items():
        definition = encode_schedule(Schedule(name, "default", timing, template))
        await store.swap_schedules([add_schedule(queue, name, definition)])
    loop = encode_schedule(Schedule("loop", "default", Timing(every_us=10**6), template))
    wild = loop.replace(msgspec.msgpack.encode(10**6), b"\x01")
    await store.swap_schedules([add_schedule(queue, "loop", wild)])
    listed = {each.name: (each.every, each.next_at is None) for each in await app.schedules.list()}
    nothing = (None, True)
    assert listed == {"loop": nothing, "words": nothing, "zone": nothing, "well": (60.0, False)}


@pytest.mark.parametrize(("stored", "shown"), [(NAN, 0.0), (1e300, 1.0), (-INFINITE, 0.0)])
async def test_progress_is_a_fraction_whatever_is_stored(
    app: App, store: InterceptedStore, stored: float, shown: float
) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    job = await see.enqueue()
    queue = Stream("queue", "default")
    [claim] = await store.claim([queue], consumer="worker", limit=1, suspects=0, wait=0)
    await store.report_progress([Report(claim, stored)])
    progress = (await job.info()).progress
    assert progress is not None
    assert progress.fraction == shown


async def test_the_largest_that_are_allowed_arrive(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    longest = RetryPolicy("exponential", 2**31 - 1, LONGEST, LONGEST)
    job = await see.with_(timeout=LONGEST, result_ttl=LONGEST, retry=longest).enqueue()
    await drain(app)
    assert await job.result() == 1
