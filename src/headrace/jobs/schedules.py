"""Schedules: declared in the code, or added, listed, paused and removed at run time."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, get_args, overload

import msgspec
from msgspec import UNSET

from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.records.record import moment
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.schedules.schedule import (
    SHORTEST_US,
    CatchUp,
    Schedule,
    Template,
    Timing,
    check_timing,
    encode_bound,
    message_of,
    opened,
    stored_schedule,
    upcoming,
)
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    add,
    establish,
    pause,
    redefine,
    remove,
    resume,
)
from headrace.core.values.codec import BindingCodec
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.names import checked_name
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.registry import Registry

from .job import Job
from .jobs import Jobs
from .task import AsyncTask, Call, SyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[Any, Any])

#: How a record changes, as core/schedules/schedule_record.py has it.
Change = Callable[[ScheduleRecord], ScheduleSwap]


class ScheduleInfo(msgspec.Struct, frozen=True):
    """A schedule and its state.

    `declared` says that the code defines it. In a process without this code, the rest of the definition is
    empty. `last_at` is the time for which it last enqueued a job, `next_at` the next time.
    """

    name: str
    queue: str
    task: str = ""
    cron: str | None = None
    every: float | None = None
    tz: str | None = None
    catch_up: CatchUp = "skip"
    jitter: float = 0.0
    declared: bool = False
    paused: bool = False
    next_at: datetime | None = None
    last_at: datetime | None = None


class ScheduleDecorator(Protocol):
    """What `app.cron(...)` and `app.every(...)` return."""

    @overload
    def __call__(self, function: T, /) -> T: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class Schedules:
    """`app.schedules`: adds schedules at run time, and lists, pauses, resumes, runs and removes them."""

    def __init__(self, app_loop: AppLoop, registry: Registry, jobs: Jobs) -> None:
        self._app_loop = app_loop
        self._registry = registry
        self._declared = registry.schedules
        self._jobs = jobs
        self._calls: dict[str, Call[Any]] = {}

    def declare(self, target: Any, timing: Timing, name: str | None, local_names: Mapping[str, Any]) -> Any:
        """Schedule a task, or a function that becomes one."""
        task = target if isinstance(target, Task) else self._jobs.declare(target, {}, local_names)
        call = task.call()
        try:
            schedule = self._schedule(task.name if name is None else name, call, timing)
        except InvalidPayload as error:
            raise ConfigurationError(
                f"{task.name} cannot be scheduled by a decorator, because it needs arguments ({error}): give "
                "them defaults, or use app.schedules.add(name, task.call(...), ...)"
            ) from None
        known = self._declared.get(schedule.name)
        # A module that is imported twice declares its schedules again.
        if known is not None and known != schedule:
            raise _taken(schedule.name)
        if known is None:
            self._registry.refuse_while_running(f"schedule {schedule.name!r}")
        self._declared[schedule.name] = schedule
        self._calls[schedule.name] = call
        return task

    async def add(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
    ) -> ScheduleInfo:
        """Enqueue `call` at the times of a `cron` expression, or after each interval `every`, from now on:
        `await app.schedules.add("report", render.call(7), cron="0 9 * * mon-fri", tz="Europe/London")`.

        The schedule is kept in the store. Adding the same schedule again changes nothing. A different
        schedule of the same name is refused. `catch_up` says what happens to times at which no worker ran:
        `"skip"`, `"one"` or `"all"`. `jitter` delays each job by a random time of at most so many seconds.
        """
        schedule = self._schedule(name, call, timing_of(cron, every, tz, catch_up, jitter))
        if name in self._declared:
            raise _taken(name)
        return await self._app_loop.repeat(self._add, schedule)

    async def list(self) -> builtins.list[ScheduleInfo]:
        """Every schedule of the store and of the code, sorted by name."""
        return await self._app_loop.repeat(self._list)

    async def pause(self, name: str) -> None:
        """Enqueue no more jobs of a schedule until it is resumed. Jobs that it has enqueued go on."""
        await self._app_loop.repeat(self._change, name, pause)

    async def resume(self, name: str) -> None:
        """Go on with a paused schedule from now on. Times that passed during the pause are skipped."""
        await self._app_loop.repeat(self._change, name, resume)

    async def run_now(self, name: str) -> Job[Any]:
        """Enqueue the job of a schedule once, now, also while the schedule is paused."""
        call = self._calls.get(name)
        return await (self._run_stored(name) if call is None else self._jobs.enqueue(call))

    async def remove(self, name: str) -> None:
        """Remove a schedule that was added at run time. Jobs that it has enqueued stay."""
        if name in self._declared:
            raise ConfigurationError(
                f"schedule {name!r} is declared in the code: pause it, or remove it from the code"
            )
        record = await self._app_loop.repeat(self._find, name)
        # A request of its own: after a lost answer it is repeated, and there is no schedule left to find.
        await self._app_loop.repeat(self._swap, record, remove)

    def _schedule(self, name: str, call: Call[Any], timing: Timing) -> Schedule:
        checked_name("schedule", name)
        stream, message, envelope = self._jobs.template_of(call)
        if call.options.job_id is not UNSET or call.options.at is not UNSET:
            raise ConfigurationError("a scheduled call cannot have job_id= or at=: it is enqueued many times")
        template = Template(
            task=message.task,
            payload=envelope.payload,
            priority=message.priority,
            delay_us=message.delay_us,
            lifetime_us=message.lifetime_us,
            unique=message.unique,
            headers=envelope.headers,
            overrides=envelope.overrides,
            child=message.child,
        )
        return Schedule(name, stream.name, timing, template)

    async def _records(self) -> tuple[int, tuple[ScheduleRecord, ...]]:
        queues = {Stream("queue", schedule.queue) for schedule in self._declared.values()}
        queues |= {stream for stream in await self._app_loop.backend.streams() if stream.kind == "queue"}
        table = await self._app_loop.backend.schedules(sorted(queues, key=lambda stream: stream.name))
        return table.now_us, table.records

    async def _find(self, name: str) -> ScheduleRecord:
        schedule = self._declared.get(name)
        if schedule is not None:  # maybe no worker has stored it yet
            await self._app_loop.backend.swap_schedules([establish(Stream("queue", schedule.queue), name)])
        records = {record.name: record for record in (await self._records())[1] if self._means(record)}
        if name not in records:
            known = ", ".join(sorted({*records, *self._declared})) or "none"
            raise ConfigurationError(f"there is no schedule called {name!r}; there are: {known}")
        return records[name]

    def _means(self, record: ScheduleRecord) -> bool:
        """Whether a record counts. The record of a declared schedule that has moved to another queue does
        not."""
        schedule = self._declared.get(record.name)
        return schedule is None or schedule.queue == record.stream.name

    async def _add(self, schedule: Schedule) -> ScheduleInfo:
        now_us, records = await self._records()
        for record in records:
            if record.name == schedule.name and record.stream.name != schedule.queue:
                raise _taken(schedule.name)
        stream, codec = Stream("queue", schedule.queue), self._registry.codec
        addition = add(stream, schedule.name, encode_bound(schedule, codec))
        [added] = await self._app_loop.backend.swap_schedules([addition])
        if added.record is None or _opened(added.record, codec) != schedule:
            raise _taken(schedule.name)
        if codec is not None and not added.done:
            # The stored schedule may need a key that is about to be removed.
            await self._swap(added.record, partial(redefine, definition=encode_bound(schedule, codec)))
        return _info(added.record, schedule, max(now_us, added.record.last_us))

    async def _list(self) -> builtins.list[ScheduleInfo]:
        now_us, records = await self._records()
        infos = {
            record.name: _info(
                record, self._declared.get(record.name) or stored_schedule(record.definition), now_us
            )
            for record in records
            if self._means(record)
        }
        for name, schedule in self._declared.items():
            if name not in infos:
                record = ScheduleRecord(Stream("queue", schedule.queue), name, now_us)
                infos[name] = _info(record, schedule, now_us)
        return [infos[name] for name in sorted(infos)]

    async def _change(self, name: str, change: Change) -> None:
        await self._swap(await self._find(name), change)

    async def _swap(self, found: ScheduleRecord, change: Change) -> None:
        """Change the stored record, also when a worker changes it at the same time, unless it is gone."""
        record: ScheduleRecord | None = found
        while record is not None:
            [swapped] = await self._app_loop.backend.swap_schedules([change(record)])
            if swapped.done:
                return
            record = swapped.record

    async def _run_stored(self, name: str) -> Job[Any]:
        record = await self._app_loop.repeat(self._find, name)
        codec = self._registry.codec
        schedule = _opened(record, codec)
        if schedule is None:
            raise ConfigurationError(
                f"schedule {name!r} is declared in code that this process does not have: use module:app"
            )
        timetable = await self._app_loop.ask(lambda store: store.schedules([record.stream]))
        message = message_of(schedule, new_id(), timetable.now_us, codec)
        return await self._app_loop.call(self._jobs.post, record.stream, message)


def timing_of(
    cron: str | None, every: Duration | None, tz: str | None, catch_up: CatchUp, jitter: Duration
) -> Timing:
    """The checked timing of a schedule."""
    if (cron is None) == (every is None):
        raise ConfigurationError("a schedule takes either cron= or every=")
    if catch_up not in get_args(CatchUp):
        raise ConfigurationError(f"catch_up must be 'skip', 'one' or 'all', not {catch_up!r}")
    jitter_us = microseconds(seconds("jitter", jitter))
    if every is not None:
        if tz is not None:
            raise ConfigurationError("tz= goes with cron=; an interval has no time zone")
        interval = positive_seconds("every", every)
        if microseconds(interval) < SHORTEST_US:
            raise ConfigurationError(f"every must be at least {SHORTEST_US / SECOND} seconds, not {every!r}")
        return Timing(every_us=microseconds(interval), catch_up=catch_up, jitter_us=jitter_us)
    given: object = cron
    zone: object = "UTC" if tz is None else tz
    if not isinstance(given, str) or not isinstance(zone, str):
        raise ConfigurationError(
            f"cron and tz are texts such as '0 9 * * *' and 'UTC', not {given!r}, {zone!r}"
        )
    timing = Timing(cron=given, tz=zone, catch_up=catch_up, jitter_us=jitter_us)
    check_timing(timing)
    return timing


def _info(record: ScheduleRecord, schedule: Schedule | None, now_us: int) -> ScheduleInfo:
    info = ScheduleInfo(
        name=record.name,
        queue=record.stream.name,
        declared=record.definition is None,
        paused=record.paused,
        last_at=moment(record.fired_us),
    )
    if schedule is None:
        return info
    timing = schedule.timing
    next_us = None if record.paused else _next_us(timing, record.last_us, now_us)
    return msgspec.structs.replace(
        info,
        task=schedule.template.task,
        cron=timing.cron or None,
        every=timing.every_us / SECOND if timing.every_us else None,
        tz=timing.tz if timing.cron else None,
        catch_up=timing.catch_up,
        jitter=timing.jitter_us / SECOND,
        next_at=None if next_us is None else moment(next_us),
    )


def _next_us(timing: Timing, last_us: int, now_us: int) -> int | None:
    """The next time. None also when the stored timing cannot be computed: a listing shows the others
    anyway."""
    try:
        return upcoming(timing, last_us, now_us)
    except Exception:
        return None


def _opened(record: ScheduleRecord, codec: BindingCodec | None) -> Schedule | None:
    schedule = stored_schedule(record.definition)
    try:
        return schedule and opened(schedule, codec, queue=record.stream.name, name=record.name)
    except UnverifiedPayload as error:
        raise InvalidPayload(
            f"the arguments of schedule {record.name!r} cannot be read ({error}): use an app with its codec "
            "and key, or remove the schedule and add it again"
        ) from error


def _taken(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is another schedule called {name!r}: give this one another name, or remove that one first"
    )
