"""What an app declares: tasks, schedules, topics and queues."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from headrace.core.encoding.annotations import names_in_sight
from headrace.core.schedules.schedule import CatchUp, Timing
from headrace.core.values.durations import Duration
from headrace.core.values.shown_options import shows_options
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.declared.queue import Queue
from headrace.events.events import Events
from headrace.events.options import TopicSettings, topic_options
from headrace.events.topic import Topic, TopicPattern
from headrace.jobs.declaring.queue import QueueSettings, queue_options
from headrace.jobs.jobs import Jobs
from headrace.jobs.options import BatchTaskSettings, TaskOptions, TaskSettings
from headrace.jobs.remote import RemoteTask
from headrace.jobs.scheduling.schedules import ScheduleDecorator, Schedules
from headrace.jobs.scheduling.timing import timing_of
from headrace.jobs.task import AsyncTask, BatchTaskDecorator, SyncTask, TaskDecorator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AppDeclarations:
    """The declarations of an app."""

    schedules: Schedules
    _app_loop: AppLoop
    _jobs: Jobs
    _events: Events

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(
        self, *, batch: int, batch_wait: Duration = ..., **options: Unpack[TaskSettings]
    ) -> BatchTaskDecorator: ...
    @overload
    def task(self, **options: Unpack[TaskSettings]) -> TaskDecorator: ...

    @shows_options(BatchTaskSettings, TaskOptions)  # type: ignore[misc]
    def task(self, function: Any = None, /, **options: Unpack[BatchTaskSettings]) -> Any:
        """Make a task from a function: `@app.task`, or with options `@app.task(queue="reports",
        timeout=300)`.

        An `async def` runs on the event loop of the worker, a plain function in a thread, or in a child
        process with `run_in="process"`. Times are seconds or a timedelta.

        - `queue`: the queue of its jobs
        - `priority`: `"high"`, `"normal"` or `"low"`: in a queue, all jobs of a higher priority start first
        - `timeout`: how long one run may take. A run that takes longer is interrupted, and has failed with
          `TimeoutError`. None: as long as it likes
        - `result_ttl`: how long the result is kept; 0: not at all. None: as long as the app says
          (`App(result_ttl=)`, an hour), but not at all for a function that is annotated `-> None`
        - `unique`: while a job of this task with the same arguments is there, enqueueing it again stores
          nothing and returns that job
        - `unique_until`: how long a job is unique: until it is `"started"`, until it is `"finished"`, or for
          so many seconds from its enqueueing
        - `expires`: how long a job may wait for its first run, from the moment when it could first run. Then
          it is dropped, with the status `expired`. None: for ever
        - `name`: the name that is stored with each job; by default `module.function`
        - `retry`: a `RetryPolicy`, or a function `(failures, error) -> delay | None`. None: the policy of the
          app (`App(retry=)`), which is 3 retries, exponential from 1 s
        - `run_in`: where a plain function runs: `"thread"` or `"process"`. None: in a thread
        - `on_duplicate`: what enqueueing a job again does that is there already: `"keep"` (the default)
          returns the first job, `"replace"` gives a waiting job the new arguments, options and place,
          `"raise"` raises `DuplicateJob`
        - `debounce`: the job runs once, so many seconds after the last call, with the arguments of that call.
          Calls belong together that have the same `unique_key`, or else the same arguments
        - `max_running`: how many jobs of the task may run at once, over the whole fleet
        - `rate_limit`: how many may start in a span of time, such as `"100/m"`
        - `limits`: a list of `Limit`; one limit may be shared by several tasks and queues
        - `tenant_by`: the name of a parameter, or a function of the arguments. The tenants of a queue take
          turns
        - `ordered_by`: the name of a parameter, or a function of the arguments. Jobs with the same value run
          one at a time, in the order in which they were enqueued
        - `version`: the version of its arguments, a whole number; see `Task.upcast`. A worker with an older
          version hands its jobs back
        - `batch`: the function takes a list of at most so many elements, and each job has one of them: `await
          index.enqueue(doc)`. None: the function takes the arguments of one job
        - `batch_wait`: how long a job waits for others of its list; 0: a list has the jobs that are there

        A list that a batch function returns has a result for each job; a `BatchResult` names jobs that
        failed. When it raises, the list is halved, until the failing job is alone. `timeout` applies to the
        list, `retry` to each job.
        """
        local_names = names_in_sight(1)
        if function is not None:
            return self._jobs.declare(function, options, local_names)

        def declare(function: Callable[..., Any]) -> Any:
            return self._jobs.declare(function, options, local_names)

        return declare

    def cron(
        self,
        expression: str,
        *,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
        name: str | None = None,
    ) -> ScheduleDecorator:
        """Run a task at the times of a cron expression: `@app.cron("0 9 * * mon-fri", tz="Europe/London")`.

        The decorator takes a task, or a function, which becomes a task. It must need no arguments.

        - `expression`: minute, hour, day of month, month, day of week; with six fields the first is the
          second; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`
        - `tz`: the time zone of the expression. None: UTC
        - `catch_up`: what happens to times at which no worker ran: `"skip"`, `"one"` (one job for all of
          them) or `"all"` (a job for each)
        - `jitter`: delays each job by a random time of at most so many seconds
        - `name`: the name of the schedule. None: the name of the task
        """
        return self._scheduled(timing_of(expression, None, tz, catch_up, jitter), name, names_in_sight(1))

    def every(
        self, interval: Duration, *, catch_up: CatchUp = "skip", jitter: Duration = 0, name: str | None = None
    ) -> ScheduleDecorator:
        """Run a task every so many seconds, first after one interval: `@app.every(30)`.

        The decorator takes a task, or a function, which becomes a task. It must need no arguments.

        - `interval`: seconds or a timedelta
        - `catch_up`: what happens to times at which no worker ran: `"skip"`, `"one"` or `"all"`
        - `jitter`: delays each job by a random time of at most so many seconds
        - `name`: the name of the schedule. None: the name of the task
        """
        return self._scheduled(timing_of(None, interval, None, catch_up, jitter), name, names_in_sight(1))

    @overload
    def topic(self, name: str, type: type[T], **options: Unpack[TopicSettings]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, type: Any = ..., **options: Unpack[TopicSettings]) -> Topic[Any]: ...

    @shows_options(TopicSettings, topic_options)
    def topic(self, name: str, type: Any = Any, **options: Unpack[TopicSettings]) -> Topic[Any]:
        """A topic whose events are of this type: `orders = app.topic("orders", OrderPlaced)`.

        - `name`: the name of the topic
        - `type`: the type of its payloads; what does not fit is refused
        - `retention`: how long events are kept. None: for ever
        - `max_length`: how many events are kept at most. None: as many as the retention keeps
        - `retention_strict`: keep an event, at any age, until every group with a live member has drawn it.
          With False, age and length alone decide
        - `overflow`: what happens when `max_length` is reached: `"drop_oldest"`, or `"refuse"`: publishing
          raises `QueueFull` while the topic holds `max_length` events that its groups have not drawn
        - `idempotency_window`: how long an idempotency key is remembered
        - `schema_version`: the version of the payloads; see `Topic.upcast`
        - `partitions`: into how many parts the topic is split; this is fixed when the topic is first used.
          None: it is not split
        """
        return self._events.topic(name, type, **options)

    @overload
    def topics(self, pattern: str, type: type[T]) -> TopicPattern[T]: ...
    @overload
    def topics(self, pattern: str, type: Any = ...) -> TopicPattern[Any]: ...

    def topics(self, pattern: str, type: Any = Any) -> TopicPattern[Any]:
        """Every topic that matches, also topics that are made later: `app.topics("orders.*", OrderEvent)`.

        - `pattern`: a name in which `*` stands for one dotted segment
        - `type`: the type of the payloads
        """
        return self._events.pattern(pattern, type)

    @shows_options(QueueSettings, queue_options)
    def queue(self, name: str, **options: Unpack[QueueSettings]) -> Queue:
        """Declare a queue, for its options: `app.queue("mails", queue_limit=100_000)`. A queue without
        options needs no declaration.

        - `slots`: how many slots of one worker process its jobs may use; None: all. The option `queues` of a
          worker, and `--queues mails:20`, override it
        - `queue_limit`: how many jobs may wait in the queue; None: as many as the app allows
        - `retry`: the retry policy of jobs whose call and task name none
        - `crash_limit`: at this crash a job is dead; None: at the third
        - `on_dead`: a task, or its name. It is enqueued for each job of the queue that dies, with the id,
          task, queue, reason and error of the dead letter
        - `dead_retention`: how long a dead letter is kept; None: until it is discarded
        - `dead_limit`: how many dead letters are kept; the oldest are dropped. None: all
        - `limits`: how many of its jobs may run at once or start in a span of time, over the whole fleet
        - `partitions`: its number of parts. For a queue that is in use, `admin.split` changes this number.
        - `hash_tag`: on a Redis Cluster, all queues with this tag are on one node, and a limit may cover them
        """
        return self._jobs.declarations.declare_queue(queue_options(name, **options))

    def remote(self, name: str, queue: str = "default", *, version: int = 1) -> RemoteTask:
        """A task whose code is elsewhere, by its name: `await app.remote("billing.send",
        queue="billing").enqueue(7, to="a@example.com")`.

        The worker that has the task checks the arguments. All other options are those of the task, or are
        given by `with_(...)`. Without `unique_key`, a job is not unique.

        - `name`: the name of the task
        - `queue`: a queue that the worker serves
        - `version`: of the task for which the arguments are written; upcasts lead older ones to the newest
        """
        return self._jobs.remote(name, queue, version)

    def _scheduled(
        self, timing: Timing, name: str | None, local_names: Mapping[str, Any]
    ) -> ScheduleDecorator:
        def declare(function: Any) -> Any:
            return self.schedules.declare(function, timing, name, local_names)

        return declare
