"""The options of tasks and calls. They are checked where users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from headrace.core.errors import ConfigurationError
from headrace.core.limits.limit import KeyOf, Limit
from headrace.core.limits.rate import Rate
from headrace.core.messages.ids import is_given_id
from headrace.core.messages.message import PRIORITIES, OnDuplicate, PriorityName
from headrace.core.messages.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.core.values.checks import checked_headers, due_moment, flag, short_text, unknown_option
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.transactions.connections import recognised

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
    unique: bool
    unique_until: UniqueWindow
    on_duplicate: OnDuplicate


class TaskSettings(CommonSettings, total=False):
    """The options of `app.task(...)`, as users write them. `App.task` says what each of them means."""

    name: str
    retry: RetryPolicy | RetryFunction | None
    result_ttl: Duration | None
    debounce: Duration | None
    expires: Duration | None
    run_in: RunIn | None
    max_running: int | None
    rate_limit: str | None
    limits: Sequence[Limit] | None
    tenant_by: KeyOf | None
    ordered_by: KeyOf | None
    version: int


class BatchTaskSettings(TaskSettings, total=False):
    """The options of `app.task(batch=...)`, as users write them. `App.task` says what each of them means."""

    batch: int
    batch_wait: Duration


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
    on_duplicate: OnDuplicate = "keep"
    debounce: float | None = None
    expires: float | None = None
    run_in: RunIn | None = None
    max_running: int | None = None
    rate_limit: str | None = None
    limits: tuple[Limit, ...] = ()
    tenant_by: KeyOf | None = None
    ordered_by: KeyOf | None = None
    version: int = 1
    batch: int | None = None
    batch_wait: float = 0.0


class CallOverrides(CommonSettings, total=False):
    """The options of `with_(...)`, as users write them. Each overrides the option of the task for one call.
    `Task.with_` says what each of them means."""

    delay: Duration
    at: datetime
    debounce: Duration
    expires: Duration
    result_ttl: Duration
    retry: RetryPolicy
    job_id: str
    unique_key: str
    headers: Mapping[str, str]
    tenant: str
    order_key: str
    limit_keys: Mapping[str, str]
    transaction: object


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
    on_duplicate: OnDuplicate | UnsetType = UNSET
    debounce: float | UnsetType = UNSET
    expires: float | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    result_ttl: float | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    order_key: str | UnsetType = UNSET
    limit_keys: dict[str, str] | UnsetType = UNSET
    transaction: object = UNSET

    def merged(self, given: Mapping[str, Any]) -> CallOptions:
        """These options, with those of `given` checked and set."""
        merged = msgspec.structs.replace(self, **_checked("with_()", _CALL_CHECKS, given))
        if merged.delay is not UNSET and merged.at is not UNSET:
            raise ConfigurationError("a call takes delay= or at=, not both")
        if merged.debounce is not UNSET:
            check_debounce(merged)
        return merged


AS_DECLARED = CallOptions()


def task_options(settings: BatchTaskSettings) -> TaskOptions:
    """The options of a task, checked. The settings have a name."""
    written = {
        name: value for name, value in settings.items() if value is not None or name not in _LEFT_OUT_AS_NONE
    }
    options = TaskOptions(**_checked("task()", _TASK_CHECKS, written))
    if options.batch_wait and options.batch is None:
        raise ConfigurationError("batch_wait= goes with batch=: write batch=100, batch_wait=0.05")
    if options.debounce is not None:
        AS_DECLARED.merged({name: value for name, value in written.items() if name in _WITH_DEBOUNCE})
    return options


def check_debounce(given: CallOptions) -> None:
    """Refuse options that say something else than `debounce` does."""
    if given.unique_until is not UNSET:
        raise ConfigurationError(
            "debounce= does not go with unique_until=: a debounced job is unique until it starts, so leave "
            "unique_until out, or write unique=True, unique_until=... without debounce="
        )
    if given.on_duplicate not in (UNSET, "replace"):
        raise ConfigurationError(
            f"debounce= does not go with on_duplicate={given.on_duplicate!r}: each call replaces the waiting "
            "job, so leave on_duplicate out"
        )
    if given.delay is not UNSET or given.at is not UNSET:
        raise ConfigurationError("debounce= is the delay of the job: leave delay= and at= out")


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


def _on_duplicate(option: str, value: object) -> OnDuplicate:
    match value:
        case "keep" | "replace" | "raise":
            return value
    raise ConfigurationError(f"on_duplicate must be 'keep', 'replace' or 'raise', not {value!r}")


def _rate(option: str, value: object) -> str:
    Rate.parse(value)
    return str(value)


def checked_limits(option: str, value: object) -> tuple[Limit, ...]:
    """`value` if it is a list of limits."""
    if isinstance(value, list | tuple) and all(isinstance(each, Limit) for each in value):
        return tuple(value)
    raise ConfigurationError(f"{option} must be a list of Limit(...), not {value!r}")


def _key_of(option: str, value: object) -> KeyOf:
    if isinstance(value, str) or callable(value):
        return value
    raise ConfigurationError(
        f"{option} is the name of a parameter or a function of the arguments, not {value!r}"
    )


def _key_text(option: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"{option} must be a text, not {value!r}")


def _limit_keys(option: str, value: object) -> dict[str, str]:
    if isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair):
        return dict(value)
    raise ConfigurationError(
        f'{option} maps names of limits to keys, such as {{"customer": "7"}}, not {value!r}'
    )


def _transaction(option: str, value: object) -> object:
    if value is None:
        return UNSET
    recognised(value)
    return value


_SHARED_CHECKS: dict[str, Check] = {
    "queue": _queue,
    "priority": _priority,
    "timeout": _timeout,
    "result_ttl": seconds,
    "unique": flag,
    "unique_until": _unique_until,
    "on_duplicate": _on_duplicate,
    "debounce": positive_seconds,
    "expires": positive_seconds,
}

_TASK_CHECKS = {
    **_SHARED_CHECKS,
    "name": _name,
    "retry": _retry,
    "run_in": _run_in,
    "max_running": positive_number,
    "rate_limit": _rate,
    "limits": checked_limits,
    "tenant_by": _key_of,
    "ordered_by": _key_of,
    "version": positive_number,
    "batch": positive_number,
    "batch_wait": seconds,
}

#: With None, these options of a task are as if they were left out.
_LEFT_OUT_AS_NONE = {
    "limits",
    *(field.name for field in msgspec.structs.fields(TaskOptions) if field.default is None),
}

_WITH_DEBOUNCE = {"debounce", "unique_until", "on_duplicate"}

_CALL_CHECKS = {
    **_SHARED_CHECKS,
    "delay": seconds,
    "at": due_moment,
    "retry": _call_retry,
    "job_id": _job_id,
    "unique_key": short_text,
    "headers": checked_headers,
    "tenant": _key_text,
    "order_key": _key_text,
    "limit_keys": _limit_keys,
    "transaction": _transaction,
}
