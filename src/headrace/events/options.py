"""The options of topics, subscriptions and events. They are checked where users write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, Never, TypedDict, get_args

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import is_made_id
from headrace.core.messages.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.core.rules.layout import checked_partitions
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.start import StartAt, start_of
from headrace.core.topics.topic import TopicRules
from headrace.core.values.checks import flag, unknown_option
from headrace.core.values.durations import Duration, positive_seconds
from headrace.core.values.names import PATTERN, checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.declared.subscription import Acknowledgement, SubscriptionOptions

#: How long events are kept by default.
WEEK = timedelta(days=7)

#: What happens when a topic has `max_length` events.
Overflow = Literal["drop_oldest", "refuse"]

#: How many events of a subscription are in flight at most by default.
IN_FLIGHT = 64


class TopicSettings(TypedDict, total=False):
    """The options of `app.topic(...)`, as users write them. `App.topic` says what each of them means."""

    retention: Duration | None
    max_length: int | None
    retention_strict: bool
    overflow: Overflow
    idempotency_window: Duration
    schema_version: int
    partitions: int | None


class GroupSettings(TypedDict, total=False):
    """The options that all subscriptions share."""

    retry: RetryPolicy | RetryFunction | None
    max_in_flight: int | None
    start: StartAt
    fan_out: bool
    ordered: bool
    schema_versions: Iterable[int] | None


class SubscriptionSettings(GroupSettings, total=False):
    """The options of `subscribe(...)`, as users write them. `Topic.subscribe` says what each of them
    means."""

    ack: Acknowledgement


class BatchSettings(GroupSettings, total=False):
    """The options of `subscribe(batch=...)`, as users write them: those of `SubscriptionSettings`, except
    that a batch is not settled by hand."""

    ack: Literal["success", "receipt"]


class EventOptions(TypedDict, total=False):
    """The options of `publish(...)` and `message(...)`, as users write them. `Topic.publish` says what each
    of them means."""

    key: str | None
    headers: Mapping[str, str] | None
    kind: str | None
    source: str | None
    delay: Duration | None
    at: datetime | None
    expires: Duration | None
    idempotency_key: str | None
    correlation_id: str | None
    schema_version: int | None
    occurred_at: datetime | None
    content_type: str | None


class TopicOptions(msgspec.Struct, frozen=True):
    """The checked options of a topic."""

    name: str
    rules: TopicRules
    window_us: int  # how long an idempotency key is remembered
    schema_version: int = 1
    partitions: int | None = None  # None: as the store has it
    limit: int | None = None  # of each publication; None: the oldest events are dropped


def topic_options(
    name: object,
    *,
    retention: Duration | None = WEEK,
    max_length: int | None = None,
    retention_strict: bool = True,
    overflow: Overflow = "drop_oldest",
    idempotency_window: Duration = 3600,
    schema_version: int = 1,
    partitions: int | None = None,
    **unknown: Never,
) -> TopicOptions:
    """The options of a topic, checked."""
    for option in unknown:
        raise unknown_option("topic()", option, TopicSettings.__annotations__)
    rules = TopicRules(
        retention_us=0 if retention is None else microseconds(positive_seconds("retention", retention)),
        max_length=None if max_length is None else positive_number("max_length", max_length),
        strict=flag("retention_strict", retention_strict),
    )
    window_us = microseconds(positive_seconds("idempotency_window", idempotency_window))
    version = positive_number("schema_version", schema_version)
    parts = None if partitions is None else checked_partitions(partitions)
    limit = rules.max_length if _refuses(overflow, rules.max_length) else None
    return TopicOptions(checked_name("topic", name), rules, window_us, version, parts, limit)


def subscription_options(
    group: str | None,
    *,
    batch: int | None = None,
    ack: Acknowledgement = "success",
    retry: RetryPolicy | RetryFunction | None = None,
    max_in_flight: int | None = None,
    start: StartAt = "new",
    fan_out: bool = False,
    ordered: bool = False,
    schema_versions: Iterable[int] | None = None,
    **unknown: Never,
) -> SubscriptionOptions:
    """The options of a subscription, checked one by one and together."""
    for option in unknown:
        raise unknown_option("subscribe()", option, {"batch": int, **SubscriptionSettings.__annotations__})
    size = None if batch is None else positive_number("batch", batch)
    options = SubscriptionOptions(
        group=None if group is None else checked_name("group", group),
        ack=checked_ack(ack),
        retry=None if retry is None else checked_retry(retry),
        max_in_flight=max(IN_FLIGHT, 2 * (size or 0))
        if max_in_flight is None
        else positive_number("max_in_flight", max_in_flight),
        start=start_of(start),
        fan_out=flag("fan_out", fan_out),
        batch=size,
        ordered=flag("ordered", ordered),
        schema_versions=None if schema_versions is None else _versions(schema_versions),
    )
    for is_wrong, text in _impossible(options, max_in_flight is not None):
        if is_wrong:
            raise ConfigurationError(text)
    return options


def _impossible(options: SubscriptionOptions, limited: bool) -> list[tuple[bool, str]]:
    fan_out, batch, ack = options.fan_out, options.batch, options.ack
    event = options.start.event
    return [
        (
            event != "" and not is_made_id(event),
            f"start={event!r} is not 'new', 'beginning' or the id of an event",
        ),
        (
            fan_out and options.group is not None,
            "a subscription takes group= or fan_out=True, not both: a fan-out has no group",
        ),
        (not fan_out and options.group is None, "a subscription needs group= or fan_out=True"),
        (
            fan_out and ack != "success",
            f"fan_out=True with ack={ack!r}: a fan-out holds no events, so there is nothing to settle",
        ),
        (
            fan_out and options.ordered,
            "fan_out=True with ordered=True: a fan-out reads the log in order anyway",
        ),
        (
            batch is not None and ack == "manual",
            "batch= with ack='manual': return a BatchResult instead, which settles single events separately",
        ),
        (
            ack == "receipt" and options.retry not in (None, RetryPolicy.none()),
            "ack='receipt' with retry=: an event that is settled before it is handled is not retried",
        ),
        (
            options.ordered and ack == "receipt",
            "ordered=True with ack='receipt': an event that is settled on receipt does not delay the next",
        ),
        (
            limited and batch is not None and options.max_in_flight < batch,
            f"max_in_flight={options.max_in_flight} with batch={batch}: no batch would ever be full",
        ),
    ]


def _refuses(overflow: object, max_length: int | None) -> bool:
    if overflow not in get_args(Overflow):
        raise ConfigurationError(f"overflow must be 'drop_oldest' or 'refuse', not {overflow!r}")
    if overflow == "refuse" and max_length is None:
        raise ConfigurationError(
            "overflow='refuse' needs a length: write max_length=10_000, overflow='refuse'"
        )
    return overflow == "refuse"


def _versions(given: object) -> frozenset[int]:
    if isinstance(given, Iterable) and not isinstance(given, str):
        versions = frozenset(positive_number("schema_versions", each) for each in given)
        if versions:
            return versions
    raise ConfigurationError(f"schema_versions must name versions, such as range(1, 3), not {given!r}")


def checked_pattern(pattern: object) -> str:
    """The name of a topic in which `*` may stand for one dotted segment."""
    if (
        isinstance(pattern, str)
        and PATTERN.fullmatch(pattern.replace("*", "x"))
        and all("*" not in segment or segment == "*" for segment in pattern.split("."))
    ):
        return pattern
    raise ConfigurationError(
        f"{pattern!r} is not a pattern of topics: write a name with * for a whole segment, as in orders.*"
    )


def checked_ack(value: object) -> Acknowledgement:
    """How the events of a subscription are settled."""
    match value:
        case "success" | "receipt" | "manual":
            return value
    raise ConfigurationError(f"ack must be 'success', 'receipt' or 'manual', not {value!r}")
