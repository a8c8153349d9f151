"""The options of tasks and calls. They are checked where users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import is_given_id
from headrace.core.messages.message import PRIORITIES, PriorityName
from headrace.core.messages.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.core.values.checks import checked_headers, due_moment, flag, short_text, unknown_option
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.names import checked_name

#: Where a function runs. By default an `async def` runs on the event loop, and a plain function in a thread.
RunIn = Literal["thread", "process"]

#: How long a job stays unique: until it starts, until it finishes, or for a number of seconds.
UniqueUntil = Literal["started", "finished"] | float

#: `UniqueUntil` as users write it: the seconds may be a timedelta.
UniqueWindow = Literal["started", "finished"] | Duration


#: Checks the value of an option: `(option, value)` → the value to use.
Check = Callable[[str, Any], Any]


class CommonSettings(TypedDict, total=False):
    """The options that tasks and calls share."""

    queue: str
    priority: PriorityName
    timeout: Duration | None
    result_ttl: Duration
    unique: bool
    unique_until: UniqueWindow
    expires: Duration


class TaskSettings(CommonSettings, total=False):
    """The options of `app.task(...)`, as users write them.

    - `name`: the name that is stored with each job; by default `module.function`
    - `queue`: the queue of its jobs
    - `priority`: `"high"`, `"normal"` or `"low"`
    - `retry`: a `RetryPolicy`, or a function `(failures, error) -> delay | None`
    - `timeout`: how long one run may take; None: as long as it likes
    - `result_ttl`: how long a result is kept; 0: not at all
    - `unique`, `unique_until`: enqueueing the same arguments again returns the first job, and how long it
      does
    - `expires`: how long a job may wait for its first run
    - `run_in`: `"thread"` or `"process"`
    """

    name: str
    retry: RetryPolicy | RetryFunction
    run_in: RunIn


class TaskOptions(msgspec.Struct, frozen=True):
    """The checked options of a task. Times are seconds."""

    name: str
    queue: str = "default"
    priority: PriorityName = "normal"
    retry: RetryPolicy | RetryFunction | None = None
    timeout: float | None = None
    result_ttl: float | None = None
    unique: bool = False
    unique_until: UniqueUntil = "finished"
    expires: float | None = None
    run_in: RunIn | None = None


class CallOverrides(CommonSettings, total=False):
    """The options of `with_(...)`, as users write them. Each overrides the option of the task for one call.

    - `delay` or `at`: when the job may run first, as seconds from now or as a datetime with a time zone
    - `queue`, `priority`, `timeout`, `expires`, `result_ttl`: as for `app.task`
    - `retry`: a `RetryPolicy`
    - `job_id`: the id of the job; a job with this id is stored once
    - `unique`, `unique_key`, `unique_until`: enqueueing the same key again returns the first job, and how
      long it does; without a key, the task and its arguments are the key
    - `headers`: texts that travel with the job
    """

    delay: Duration
    at: datetime
    retry: RetryPolicy
    job_id: str
    unique_key: str
    headers: Mapping[str, str]


class CallOptions(msgspec.Struct, frozen=True):
    """The checked options of one call. An option that is unset has the value of the task."""

    delay: float | UnsetType = UNSET
    at: datetime | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: PriorityName | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    job_id: str | UnsetType = UNSET
    unique: bool | UnsetType = UNSET
    unique_key: str | UnsetType = UNSET
    unique_until: UniqueUntil | UnsetType = UNSET
    expires: float | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    result_ttl: float | UnsetType = UNSET

    def merged(self, given: Mapping[str, Any]) -> CallOptions:
        """These options, with those of `given` checked and set."""
        merged = msgspec.structs.replace(self, **_checked("with_()", _CALL_CHECKS, given))
        if merged.delay is not UNSET and merged.at is not UNSET:
            raise ConfigurationError("a call takes delay= or at=, not both")
        return merged


AS_DECLARED = CallOptions()


def task_options(settings: TaskSettings) -> TaskOptions:
    """The options of a task, checked. The settings have a name."""
    return TaskOptions(**_checked("task()", _TASK_CHECKS, settings))


def _checked(function: str, checks: Mapping[str, Check], given: Mapping[str, Any]) -> dict[str, Any]:
    for option in given:
        if option not in checks:
            raise unknown_option(function, option, checks)
    return {option: checks[option](option, value) for option, value in given.items()}


def _name(option: str, value: object) -> str:
    return checked_name("task", value)


def _priority(option: str, value: object) -> PriorityName:
    if isinstance(value, str) and value in PRIORITIES:
        return value
    raise ConfigurationError(f"priority must be one of {', '.join(PRIORITIES)}, not {value!r}")


def _run_in(option: str, value: object) -> RunIn:
    match value:
        case "thread" | "process":
            return value
    raise ConfigurationError(f"run_in must be 'thread' or 'process', not {value!r}")


def _queue(option: str, value: object) -> str:
    return checked_name("queue", value)


def _retry(option: str, value: object) -> RetryPolicy | RetryFunction:
    return checked_retry(value)


def _call_retry(option: str, value: object) -> RetryPolicy:
    if isinstance(value, RetryPolicy):
        return value
    raise ConfigurationError(f"for one call, retry must be a RetryPolicy, which can be stored, not {value!r}")


def _timeout(option: str, value: object) -> float:
    # In the message 0 means no timeout, so that a call can switch off the timeout of its task.
    return 0.0 if value is None else positive_seconds("timeout", value)


def _job_id(option: str, value: object) -> str:
    if isinstance(value, str) and is_given_id(value):
        return value
    raise ConfigurationError(
        f"job_id {value!r} is not allowed: use 1 to 200 printable characters without spaces or braces"
    )


def _unique_until(option: str, value: object) -> UniqueUntil:
    match value:
        case "started" | "finished":
            return value
        case str():
            raise ConfigurationError(f"unique_until must be 'started', 'finished' or seconds, not {value!r}")
    return positive_seconds("unique_until", value)


_SHARED_CHECKS: dict[str, Check] = {
    "queue": _queue,
    "priority": _priority,
    "timeout": _timeout,
    "result_ttl": seconds,
    "unique": flag,
    "unique_until": _unique_until,
    "expires": positive_seconds,
}

_TASK_CHECKS = {**_SHARED_CHECKS, "name": _name, "retry": _retry, "run_in": _run_in}

_CALL_CHECKS = {
    **_SHARED_CHECKS,
    "delay": seconds,
    "at": due_moment,
    "retry": _call_retry,
    "job_id": _job_id,
    "unique_key": short_text,
    "headers": checked_headers,
}
