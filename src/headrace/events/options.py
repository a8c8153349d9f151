"""The options of topics and subscriptions, as users write them, checked where they are written."""

from __future__ import annotations

from typing import Any, cast, get_args

import msgspec

from headrace.core.checks import flag
from headrace.core.clock import microseconds
from headrace.core.duration import Duration, positive_seconds
from headrace.core.errors import ConfigurationError
from headrace.core.ids import is_made_id
from headrace.core.layout import checked_partitions
from headrace.core.names import PATTERN, checked_name
from headrace.core.number import positive_number
from headrace.core.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.core.starts import StartAt, start_of
from headrace.core.topics import Start, TopicRules
from headrace.engine.subscription import Acknowledgement

#: How many events of a subscription are in flight at most, unless it says otherwise.
IN_FLIGHT = 64


class TopicOptions(msgspec.Struct, frozen=True):
    """What a topic was declared with."""

    name: str
    rules: TopicRules
    window_us: int  # for which an idempotency key is remembered
    schema_version: int = 1
    partitions: int | None = None  # None: whatever the store has


class SubscriptionOptions(msgspec.Struct, frozen=True):
    """What a subscription was declared with."""

    group: str | None
    ack: Acknowledgement
    retry: RetryPolicy | RetryFunction | None
    max_in_flight: int
    start: Start
    fan_out: bool
    batch: int | None
    ordered: bool


def topic_options(
    name: object,
    *,
    retention: Duration | None,
    max_length: int | None,
    retention_strict: bool,
    idempotency_window: Duration,
    schema_version: int,
    partitions: int | None,
) -> TopicOptions:
    rules = TopicRules(
        retention_us=0 if retention is None else microseconds(positive_seconds("retention", retention)),
        max_length=None if max_length is None else positive_number("max_length", max_length),
        strict=flag("retention_strict", retention_strict),
    )
    window_us = microseconds(positive_seconds("idempotency_window", idempotency_window))
    version = positive_number("schema_version", schema_version)
    parts = None if partitions is None else checked_partitions(partitions)
    return TopicOptions(checked_name("topic", name), rules, window_us, version, parts)


def subscription_options(
    group: str | None,
    *,
    ack: str,
    retry: RetryPolicy | RetryFunction | None,
    max_in_flight: int | None,
    start: StartAt,
    fan_out: bool,
    batch: int | None,
    ordered: bool,
) -> SubscriptionOptions:
    size = None if batch is None else positive_number("batch", batch)
    options = SubscriptionOptions(
        group=None if group is None else checked_name("group", group),
        ack=_ack(ack),
        retry=None if retry is None else checked_retry(retry),
        max_in_flight=max(IN_FLIGHT, 2 * (size or 0))
        if max_in_flight is None
        else positive_number("max_in_flight", max_in_flight),
        start=start_of(start),
        fan_out=flag("fan_out", fan_out),
        batch=size,
        ordered=flag("ordered", ordered),
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
            f"start={event!r} is no event's id, and neither 'new' nor 'beginning'",
        ),
        (
            fan_out and options.group is not None,
            "a subscription has a group, or fan_out=True: a fan-out goes to every process and has no group",
        ),
        (not fan_out and options.group is None, "say which group= subscribes, or fan_out=True"),
        (
            fan_out and ack != "success",
            f"fan_out=True with ack={ack!r}: nothing is held that could be settled",
        ),
        (
            fan_out and options.ordered,
            "fan_out=True with ordered=True: each process reads the log in its order",
        ),
        (
            batch is not None and ack == "manual",
            "batch= with ack='manual': return a BatchResult instead, which settles single events apart",
        ),
        (
            ack == "receipt" and options.retry not in (None, RetryPolicy.none()),
            "ack='receipt' with retry=: an event that is settled before it is handled is not tried again",
        ),
        (
            options.ordered and ack == "receipt",
            "ordered=True with ack='receipt': an event that is settled before it is handled orders nothing",
        ),
        (
            limited and batch is not None and options.max_in_flight < batch,
            f"max_in_flight={options.max_in_flight} with batch={batch}: no batch would ever be full",
        ),
    ]


def checked_pattern(pattern: object) -> str:
    """A topic's name in which `*` may stand for one dotted segment."""
    if (
        isinstance(pattern, str)
        and PATTERN.fullmatch(pattern.replace("*", "x"))
        and all("*" not in segment or segment == "*" for segment in pattern.split("."))
    ):
        return pattern
    raise ConfigurationError(
        f"{pattern!r} is no pattern of topics: write their name with * for a whole segment, as in orders.*"
    )


def _ack(value: Any) -> Acknowledgement:
    if value in get_args(Acknowledgement):
        return cast(Acknowledgement, value)
    raise ConfigurationError(f"ack must be 'success', 'receipt' or 'manual', not {value!r}")
