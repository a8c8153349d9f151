"""The options of tasks and calls, as users write them, checked where they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from headrace.core.checks import can_be_sent, checked_headers, due_moment, flag, unknown_option
from headrace.core.duration import Duration, positive_seconds, seconds
from headrace.core.errors import ConfigurationError
from headrace.core.ids import is_given_id
from headrace.core.message import PRIORITIES, PriorityName
from headrace.core.names import checked_name
from headrace.core.retry import RetryFunction, RetryPolicy, checked_retry

#: Where a function runs; by default an `async def` on the event loop, a plain one in a thread.
RunIn = Literal["thread", "process"]

UniqueUntil = Literal["started", "finished"] | float

#: The same as users write it: the seconds may be a timedelta.
UniqueWindow = Literal["started", "finished"] | Duration


class TaskOptions(msgspec.Struct, frozen=True):
    """What a task was declared with. Times are seconds."""

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


class CallOverrides(TypedDict, total=False):
    """What `with_` takes, as users write it."""

    delay: Duration
    at: datetime
    queue: str
    priority: PriorityName
    retry: RetryPolicy
    timeout: Duration | None
    job_id: str
    unique: bool
    unique_key: str
    unique_until: UniqueWindow
    expires: Duration
    headers: Mapping[str, str]
    result_ttl: Duration


class CallOptions(msgspec.Struct, frozen=True):
    """What one call says differently from its task; unset: as the task says."""

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
        """These options with others laid over them, checked."""
        for name in given:
            if name not in _CALL_CHECKS:
                raise unknown_option("with_()", name, _CALL_CHECKS)
        checked = {name: _CALL_CHECKS[name](name, value) for name, value in given.items()}
        merged = msgspec.structs.replace(self, **checked)
        if merged.delay is not UNSET and merged.at is not UNSET:
            raise ConfigurationError("give a call delay= or at=, not both")
        return merged


AS_DECLARED = CallOptions()


def task_options(name: str, given: Mapping[str, Any]) -> TaskOptions:
    """The options of a task, checked."""
    for option in given:
        if option not in _TASK_CHECKS:
            raise unknown_option("task()", option, _TASK_CHECKS)
    checked = {option: _TASK_CHECKS[option](option, value) for option, value in given.items()}
    return TaskOptions(name=checked_name("task", name), **checked)


def _priority(option: str, value: object) -> PriorityName:
    if isinstance(value, str) and value in PRIORITIES:
        return value
    raise ConfigurationError(f"priority must be one of {', '.join(PRIORITIES)}, not {value!r}")


def _run_in(option: str, value: object) -> RunIn:
    if value not in get_args(RunIn):
        raise ConfigurationError(f"run_in must be 'thread' or 'process', not {value!r}")
    return cast(RunIn, value)


def _queue(option: str, value: object) -> str:
    return checked_name("queue", value)


def _retry(option: str, value: object) -> RetryPolicy | RetryFunction:
    return checked_retry(value)


def _call_retry(option: str, value: object) -> RetryPolicy:
    if isinstance(value, RetryPolicy):
        return value
    raise ConfigurationError(f"for one call retry must be a RetryPolicy, which can be sent, not {value!r}")


def _timeout(option: str, value: object) -> float:
    # 0 stands for none on its way to the worker, so that a call can switch its task's timeout off.
    return 0.0 if value is None else positive_seconds("timeout", value)


def _seconds(option: str, value: object) -> float:
    return seconds(option, value)


def _positive(option: str, value: object) -> float:
    return positive_seconds(option, value)


def _job_id(option: str, value: object) -> str:
    if isinstance(value, str) and is_given_id(value):
        return value
    raise ConfigurationError(
        f"job_id {value!r} is not allowed: use 1 to 200 printable characters without spaces or braces"
    )


def _unique_key(option: str, value: object) -> str:
    if isinstance(value, str) and can_be_sent(value) and 0 < len(value.encode()) <= 500:
        return value
    raise ConfigurationError(f"unique_key must be a text of 1 to 500 bytes, not {value!r}")


def _unique_until(option: str, value: object) -> UniqueUntil:
    if isinstance(value, str):
        if value in get_args(Literal["started", "finished"]):
            return cast(UniqueUntil, value)
        raise ConfigurationError(f"unique_until must be 'started', 'finished' or seconds, not {value!r}")
    return positive_seconds("unique_until", value)


Check = Callable[[str, Any], Any]

_TASK_CHECKS: dict[str, Check] = {
    "queue": _queue,
    "priority": _priority,
    "retry": _retry,
    "timeout": _timeout,
    "result_ttl": _seconds,
    "unique": flag,
    "unique_until": _unique_until,
    "expires": _positive,
    "run_in": _run_in,
}

_CALL_CHECKS: dict[str, Check] = {
    "delay": _seconds,
    "at": due_moment,
    "queue": _queue,
    "priority": _priority,
    "retry": _call_retry,
    "timeout": _timeout,
    "job_id": _job_id,
    "unique": flag,
    "unique_key": _unique_key,
    "unique_until": _unique_until,
    "expires": _positive,
    "headers": checked_headers,
    "result_ttl": _seconds,
}
