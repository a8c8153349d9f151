"""Schedules: which message is sent at which moments. `cron.py` computes the moments of an expression.

A moment is named by its microsecond. Every worker computes the same moments, so that any number of workers
may try to fire each of them and the store lets one succeed (see `core/schedules/schedule_record.py`).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from cronsim import CronSimError

from headrace.core.encoding.codec import BindingCodec, form_of
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError, UnverifiedPayload
from headrace.core.messages.associated_data import arguments_data, schedule_data
from headrace.core.messages.ids import derived_id
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    HIGH,
    LOW,
    NORMAL,
    Envelope,
    Message,
    UniqueKey,
    encode_envelope,
)
from headrace.core.messages.overrides import Overrides
from headrace.core.runtime.clock import SECOND
from headrace.core.values.bounds import Count, MomentUs, SpanUs

from .cron import fields_of, moments, refuse_unknown_nickname, zone_of

CatchUp = Literal["skip", "one", "all"]

#: `catch_up="all"` fires at most this many missed moments, the latest; older ones are skipped.
MOST_MISSED = 1000

#: The shortest interval, in microseconds: a shorter one is a loop, not a schedule.
SHORTEST_US = SECOND // 100

#: The most moments that one step fires, and bytes of their payloads (one moment is always fired).
STEP_MOMENTS, STEP_BYTES = 100, 1 << 20

#: With `catch_up="skip"` a moment is missed when it is later than this, or than half the time to the next.
TOLERANCE_US = 60 * SECOND

_FIRST_WINDOW_US = 60 * SECOND


class Timing(msgspec.Struct, frozen=True):
    """When a schedule fires: a cron expression in a time zone, or every `every_us` microseconds.

    It fires from `starts_us` on and not after `ends_us`; 0: no bound. With a start, intervals count from it,
    and it is the first moment.
    """

    cron: str = ""
    every_us: SpanUs = 0
    tz: str = "UTC"
    catch_up: CatchUp = "skip"
    jitter_us: SpanUs = 0
    starts_us: MomentUs = 0
    ends_us: MomentUs = 0

    def __post_init__(self) -> None:
        if 0 < self.every_us < SHORTEST_US:
            raise ValueError(f"every {self.every_us} µs is a loop, not a schedule")


class Template(msgspec.Struct, frozen=True):
    """What a schedule sends: the parts of a message that are the same at each moment."""

    task: str
    payload: bytes
    priority: Annotated[int, msgspec.Meta(ge=HIGH, le=LOW)] = NORMAL
    delay_us: SpanUs = 0
    lifetime_us: SpanUs = 0
    unique: UniqueKey | None = None
    headers: dict[str, str] | None = None
    overrides: Overrides | None = None
    child: bool = False


class Schedule(msgspec.Struct, frozen=True):
    """A schedule: its name, the queue of its jobs, its timing and its template.

    It fires at most `limit` moments; 0: no limit. `fired` counts them in the stored definition of a schedule
    that has a limit.
    """

    name: str
    queue: str
    timing: Timing
    template: Template
    limit: Count = 0
    fired: Count = 0

    @property
    def is_over(self) -> bool:
        """Whether it has fired as often as it may."""
        return 0 < self.limit <= self.fired

    @property
    def anew(self) -> Schedule:
        """The schedule as it was added."""
        return msgspec.structs.replace(self, fired=0) if self.fired else self


class Firing(msgspec.Struct, frozen=True):
    """The moments to fire now, and the moment up to which nothing is left to do then."""

    until_us: int
    moments: tuple[int, ...] = ()


encode_schedule = msgspec.msgpack.Encoder().encode
decode_schedule = msgspec.msgpack.Decoder(Schedule).decode


def stored_schedule(definition: bytes | None) -> Schedule | None:
    """The schedule in the definition of a record. None: only other code declares it, or its version is
    newer."""
    try:
        return None if definition is None else decode_schedule(definition)
    except DECODE_ERRORS:
        return None


def check_timing(timing: Timing) -> None:
    """Raise a `ConfigurationError` for an expression or a zone that cannot work."""
    if timing.every_us:
        return
    zone_of(timing.tz)
    refuse_unknown_nickname(timing.cron)
    try:
        first = next_after(timing, 0)
    except CronSimError as error:
        raise ConfigurationError(
            f"{timing.cron!r} is no cron expression ({error}): write minute, hour, day of month, month and "
            "day of week, such as '0 9 * * mon-fri'"
        ) from None
    if first is None:
        raise ConfigurationError(f"{timing.cron!r} never comes: no day in 50 years fits it")


def next_after(timing: Timing, last_us: int) -> int | None:
    """The first moment after `last_us`; None: there is none in the next 50 years.

    For `every` the moments count from `last_us`: the moment before, or when the schedule was first seen.
    """
    last_us = _begun(timing, last_us)
    following = last_us + timing.every_us if timing.every_us else _first_moment(timing, last_us)
    return None if following is None or 0 < timing.ends_us < following else following


def upcoming(schedule: Schedule, last_us: int, now_us: int) -> int | None:
    """The first moment after `now_us`, for display; None: there is none."""
    timing = schedule.timing
    if schedule.is_over:
        return None
    if timing.every_us and last_us < now_us:
        # The last moment of the interval, up to now.
        last_us = _begun(timing, last_us)
        last_us += timing.every_us * (max(0, now_us - last_us) // timing.every_us)
        return next_after(timing, last_us)
    return next_after(timing, max(last_us, now_us) if timing.cron else last_us)


def next_of(schedule: Schedule, last_us: int) -> int | None:
    """The first moment of a schedule after `last_us`; None: there is none, or its limit is reached."""
    return None if schedule.is_over else next_after(schedule.timing, last_us)


def due(schedule: Schedule, last_us: int, now_us: int) -> Firing | None:
    """What to fire at `now_us` when nothing is left to do up to `last_us`; None: nothing yet."""
    timing = schedule.timing
    if timing.every_us and last_us > now_us + SECOND:
        return Firing(now_us)  # the clock was set back: the interval begins anew
    following = next_of(schedule, last_us)
    if following is None or following > now_us:
        return None
    last_us, until_us = _begun(timing, last_us), min(now_us, timing.ends_us or now_us)
    if timing.catch_up == "all":
        most = max(1, min(STEP_MOMENTS, STEP_BYTES // (len(schedule.template.payload) or 1)))
        most = min(most, schedule.limit - schedule.fired) if schedule.limit else most
        moments = _latest(timing, last_us, until_us, MOST_MISSED)[:most]
        return Firing(moments[-1], tuple(moments))
    [latest] = _latest(timing, last_us, until_us, 1)
    if timing.catch_up == "skip" and _is_missed(timing, latest, now_us):
        return Firing(latest)
    return Firing(latest, (latest,))


def counted(definition: bytes | None, moments: int) -> bytes | None:
    """The stored definition after so many more moments were fired. None: it stays as it is, because it has no
    limit."""
    schedule = stored_schedule(definition)
    if not moments or schedule is None or not schedule.limit:
        return None
    return encode_schedule(msgspec.structs.replace(schedule, fired=schedule.fired + moments))


def timing_of(schedule: Schedule) -> str:
    """A short name for when a schedule fires. Arguments, jitter and `catch_up` do not change it."""
    timing = schedule.timing
    cron = " ".join(fields_of(timing.cron).split())
    when = (schedule.queue, schedule.name, cron, str(timing.every_us), timing.tz)
    return hashlib.blake2b("\n".join(when).encode(), digest_size=6).hexdigest()


def message_at(schedule: Schedule, moment_us: int, now_us: int, codec: BindingCodec | None = None) -> Message:
    """The message of a moment; its id depends only on the schedule and the moment."""
    jitter_us = round(schedule.timing.jitter_us * _fraction(schedule.name, moment_us))
    delay_us = schedule.template.delay_us + jitter_us
    id = derived_id("schedule", schedule.queue, schedule.name, str(moment_us))
    message = message_of(schedule, id, now_us, codec)
    # The delay counts from the moment, not from when a worker fires it.
    return msgspec.structs.replace(message, delay_us=0, due_us=moment_us + delay_us if delay_us else 0)


def message_of(schedule: Schedule, id: str, now_us: int, codec: BindingCodec | None = None) -> Message:
    """The message of a schedule under this id, sent now. `codec` binds the arguments to it."""
    template = schedule.template
    payload = template.payload
    if codec is not None:
        payload = codec.encode_for(payload, arguments_data(id, template.task, template.headers))
    envelope = Envelope(
        ENVELOPE_VERSION, id, template.task, now_us, template.headers, template.overrides, payload
    )
    return Message(
        id,
        template.task,
        encode_envelope(envelope),
        template.priority,
        delay_us=template.delay_us,
        lifetime_us=template.lifetime_us,
        unique=template.unique,
        child=template.child,
    )


def encode_bound(schedule: Schedule, codec: BindingCodec | None) -> bytes:
    """The schedule as it is stored. `codec` binds its arguments to it."""
    if codec is not None:
        payload = codec.encode_for(schedule.template.payload, _associated(schedule))
        schedule = _with_payload(schedule, payload)
    return encode_schedule(schedule)


def opened(schedule: Schedule, codec: BindingCodec | None, *, queue: str, name: str) -> Schedule:
    """A schedule with its plain arguments, stored under this name; `UnverifiedPayload` when it is not as it
    was made."""
    payload = schedule.template.payload
    if codec is not None:
        if (schedule.queue, schedule.name) != (queue, name):
            raise UnverifiedPayload("it was made for another queue or under another name")
        return _with_payload(schedule, codec.decode_for(payload, _associated(schedule)))
    if form := form_of(payload):
        raise UnverifiedPayload(f"its arguments are {form}, and this app has no codec that reads them")
    return schedule


def _associated(schedule: Schedule) -> bytes:
    template, timing = schedule.template, schedule.timing
    when = (timing.cron, timing.every_us, timing.tz)
    return schedule_data(schedule.queue, schedule.name, when, template.task, template.headers)


def _with_payload(schedule: Schedule, payload: bytes) -> Schedule:
    template = msgspec.structs.replace(schedule.template, payload=payload)
    return msgspec.structs.replace(schedule, template=template)


def _begun(timing: Timing, last_us: int) -> int:
    """`last_us`, but not before the start. Intervals count from the start."""
    starts_us, every_us = timing.starts_us, timing.every_us
    if not starts_us:
        return last_us
    if last_us < starts_us:
        return starts_us - (every_us or 1)
    return starts_us + (last_us - starts_us) // every_us * every_us if every_us else last_us


@lru_cache(maxsize=10_000)
def _first_moment(timing: Timing, after_us: int) -> int | None:
    # Cached, because workers ask for the same moment again and again.
    return next(moments(timing.cron, timing.tz, after_us), None)


def _is_missed(timing: Timing, moment_us: int, now_us: int) -> bool:
    following = next_after(timing, moment_us)
    tolerance_us = TOLERANCE_US if following is None else min(TOLERANCE_US, (following - moment_us) // 2)
    return now_us - moment_us > tolerance_us


def _latest(timing: Timing, last_us: int, now_us: int, most: int) -> list[int]:
    """The latest `most` moments after `last_us` and not after `now_us`, in order."""
    if timing.every_us:
        count = (now_us - last_us) // timing.every_us
        return [last_us + timing.every_us * n for n in range(max(1, count - most + 1), count + 1)]
    # A long time may have passed: search back from now, twice as far each time.
    window_us = _FIRST_WINDOW_US
    while True:
        start_us = max(last_us, now_us - window_us)
        found = _between(timing, start_us, now_us)
        if len(found) >= most or start_us == last_us:
            return found[-most:]
        window_us *= 2


def _between(timing: Timing, start_us: int, end_us: int) -> list[int]:
    found: list[int] = []
    for moment_us in moments(timing.cron, timing.tz, start_us):
        if moment_us > end_us:
            break
        found.append(moment_us)
    return found


def _fraction(name: str, moment_us: int) -> float:
    """A number from 0 to 1, the same in every worker, for this moment."""
    digest = hashlib.blake2b(f"{name} {moment_us}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)
