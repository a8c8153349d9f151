"""Schedules: declared in the code, or added, listed, paused and removed at run time."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import msgspec
from msgspec import UNSET

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import BackendUnavailable, ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.schedules.schedule import (
    CatchUp,
    Schedule,
    Template,
    Timing,
    encode_bound,
    message_of,
    opened,
    stored_schedule,
)
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    add,
    establish,
    pause,
    redefine,
    remove,
    replace,
    resume,
)
from headrace.core.values.durations import Duration
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.declared.registry import Registry
from headrace.jobs.handles.job import Job
from headrace.jobs.jobs import Jobs
from headrace.jobs.task import AsyncTask, Call, SyncTask, Task

from .schedule_info import ScheduleInfo, info_of
from .timing import bounded, timing_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[Any, Any])

#: How a record changes, as core/schedules/schedule_record.py has it.
Change = Callable[[ScheduleRecord], ScheduleSwap]


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
        starts: datetime | None = None,
        ends: datetime | None = None,
        limit: int | None = None,
    ) -> ScheduleInfo:
        """Enqueue `call` at the times of a `cron` expression, or after each interval `every`, from now on:
        `await app.schedules.add("report", render.call(7), cron="0 9 * * mon-fri", tz="Europe/London")`.

        The schedule is kept in the store. A schedule of this name that is there already is an error; `put`
        replaces it, and is for programs that store their schedules whenever they start.

        - `cron` or `every`: a cron expression, or an interval
        - `tz`: the time zone of `cron`; by default UTC
        - `catch_up`: what happens to times at which no worker ran: `"skip"` (the default), `"one"` or `"all"`
        - `jitter`: delays each job by a random time of at most so many seconds; 0 by default
        - `starts`: the first time at which it may fire, a datetime with a time zone; by default now. With
          `every`, it is the first time, and intervals count from it
        - `ends`: the last time at which it may fire, a datetime with a time zone; by default none
        - `limit`: how many jobs it enqueues at most; by default there is no limit. A schedule that is over
          stays in the list until it is removed
        """
        timing = bounded(timing_of(cron, every, tz, catch_up, jitter), starts, ends)
        schedule, uncertain = self._dynamic(name, call, timing, limit), False

        def note(error: BackendUnavailable) -> None:
            nonlocal uncertain
            uncertain = uncertain or error.uncertain

        async def attempt() -> ScheduleInfo:
            return await self._add(schedule, repeated=uncertain)

        return await self._app_loop.repeat(attempt, on_error=note)

    async def put(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
        starts: datetime | None = None,
        ends: datetime | None = None,
        limit: int | None = None,
    ) -> ScheduleInfo:
        """Do what `add` does, but replace a schedule of the same name. The options are those of `add`.

        A schedule that is the same goes on as it is. When only the call has changed, the times go on. When
        anything else has changed, the schedule starts from now. A paused schedule stays paused.
        """
        timing = bounded(timing_of(cron, every, tz, catch_up, jitter), starts, ends)
        return await self._app_loop.repeat(self._put, self._dynamic(name, call, timing, limit))

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
            known = ", ".join(sorted({*records, *self._declared}))
            hint = f"there are: {known}" if known else "@app.cron and @app.every make them"
            raise ConfigurationError(f"there is no schedule called {name!r}; {hint}")
        return records[name]

    def _means(self, record: ScheduleRecord) -> bool:
        """Whether a record counts. The record of a declared schedule that has moved to another queue does
        not."""
        schedule = self._declared.get(record.name)
        return schedule is None or schedule.queue == record.stream.name

    async def _add(self, schedule: Schedule, *, repeated: bool) -> ScheduleInfo:
        """`repeated`: an earlier try may have stored it, with its answer lost."""
        now_us, records = await self._records()
        for record in records:
            if record.name == schedule.name and record.stream.name != schedule.queue:
                raise _taken(schedule.name)
        stream, codec = Stream("queue", schedule.queue), self._registry.codec
        addition = add(stream, schedule.name, encode_bound(schedule, codec))
        [added] = await self._app_loop.backend.swap_schedules([addition])
        known = None if added.record is None else _opened(added.record, codec)
        if added.record is None or known is None:
            raise _taken(schedule.name)
        if not (added.done or (repeated and known.anew == schedule)):
            raise ConfigurationError(
                f"there is another schedule called {schedule.name!r}: replace it with `put`, give this one "
                "another name, or remove that one first"
            )
        return info_of(added.record, known, max(now_us, added.record.last_us))

    def _dynamic(self, name: str, call: Call[Any], timing: Timing, limit: int | None) -> Schedule:
        """A schedule that is added at run time."""
        schedule = self._schedule(name, call, timing)
        if name in self._declared:
            raise _taken(name)
        if limit is None:
            return schedule
        return msgspec.structs.replace(schedule, limit=positive_number("limit", limit))

    async def _put(self, schedule: Schedule) -> ScheduleInfo:
        stream = Stream("queue", schedule.queue)
        now_us, records = await self._records()
        named = [record for record in records if record.name == schedule.name]
        if any(record.definition is None for record in named):
            raise _taken(schedule.name)
        here = next((record for record in named if record.stream == stream), None)
        stored = await self._replaced(here, schedule)
        for record in named:
            if record.stream != stream:  # the queue has changed
                await self._swap(record, remove)
        shown = stored_schedule(stored.definition) or schedule
        return info_of(stored, shown, max(now_us, stored.last_us))

    async def _replaced(self, record: ScheduleRecord | None, schedule: Schedule) -> ScheduleRecord:
        """Store the schedule in place of what is stored, also when a worker changes that at the same time."""
        codec, stream = self._registry.codec, Stream("queue", schedule.queue)
        definition = encode_bound(schedule, codec)
        while True:
            if record is None:
                change = add(stream, schedule.name, definition)
            else:
                known = _readable(record, codec)
                if known is not None and known.anew == schedule and codec is None:
                    return record  # with a codec, it may need a key that is about to be removed
                change = _replacement(record, known, schedule, codec)
            [swapped] = await self._app_loop.backend.swap_schedules([change])
            if swapped.done and swapped.record is not None:
                return swapped.record
            record = swapped.record

    async def _list(self) -> builtins.list[ScheduleInfo]:
        now_us, records = await self._records()
        infos = {
            record.name: info_of(
                record, self._declared.get(record.name) or stored_schedule(record.definition), now_us
            )
            for record in records
            if self._means(record)
        }
        for name, schedule in self._declared.items():
            if name not in infos:
                record = ScheduleRecord(Stream("queue", schedule.queue), name, now_us)
                infos[name] = info_of(record, schedule, now_us)
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


def _replacement(
    record: ScheduleRecord, known: Schedule | None, schedule: Schedule, codec: BindingCodec | None
) -> ScheduleSwap:
    """The change that stores another schedule. When only its call has changed, its times go on."""
    if known is not None and (known.timing, known.limit) == (schedule.timing, schedule.limit):
        going_on = msgspec.structs.replace(schedule, fired=known.fired)
        return redefine(record, encode_bound(going_on, codec))
    return replace(record, encode_bound(schedule, codec))


def _readable(record: ScheduleRecord, codec: BindingCodec | None) -> Schedule | None:
    """The stored schedule; None: it cannot be read, and is replaced whole."""
    try:
        return _opened(record, codec)
    except InvalidPayload:
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
