"""What constrains the calls of a task: its limits, its tenant, and the key of its order."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Signature
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import ConfigurationError
from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.limit import KeyOf, Limit
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.jobs.options import CallOptions, TaskOptions

from .call_values import CallValue, hashed

#: The limits of queues that were declared with limits, by the name of the queue.
QueueLimits = dict[str, tuple[Limit, ...]]


class KeyedLimit(msgspec.Struct, frozen=True):
    """A limit of a task. `key`: where its key comes from; None: it has no keys."""

    figures: LimitFigures
    key: CallValue | None


class CallConstraints:
    def __init__(
        self, options: TaskOptions, signature: Signature, codec: BindingCodec | None, queues: QueueLimits
    ) -> None:
        self._task = options.name
        self._signature = signature
        self._codec = codec
        self._queues = queues
        self._limits = self._keyed(f"task:{options.name}", _limits_of(options))
        self._by_queue: dict[str, tuple[tuple[Limit, ...], list[KeyedLimit]]] = {}
        self._tenant = self._value("tenant_by", options.tenant_by)
        self._order = self._value("ordered_by", options.ordered_by)

    @property
    def figures(self) -> list[LimitFigures]:
        """The figures of the task's own limits."""
        return [limit.figures for limit in self._limits]

    def is_used(self, queue: str) -> bool:
        """Whether calls of the task are constrained in a queue, if their options do not say so."""
        return bool(self._limits or self._tenant or self._order or self._queues.get(queue))

    def names_in(self, queue: str) -> list[str]:
        """The names of the limits that calls of the task have in a queue."""
        return [limit.figures.name for limit in self._limits_in(queue)]

    def of(
        self, queue: str, args: tuple[Any, ...], kwargs: dict[str, Any], options: CallOptions
    ) -> Constraints | None:
        """The constraints of one call; None: it has none."""
        given = {} if options.limit_keys is UNSET else options.limit_keys
        limits: list[LimitKey] = []
        for limit in self._limits_in(queue):
            name, key = limit.figures.name, limit.key
            text = "" if key is None else given[name] if name in given else key.text(args, kwargs)
            limits.append(LimitKey(name, hashed(text, self._codec)))
        if given:
            # A limit that this process does not know: the task is known by name only, or has newer code.
            known = {limit.limit for limit in limits}
            more = [(name, text) for name, text in given.items() if name not in known]
            limits += [LimitKey(name, hashed(text, self._codec)) for name, text in more]
        tenant = self._text(options.tenant, self._tenant, args, kwargs)
        return Constraints(tuple(limits), tenant) if limits or tenant else None

    def order_key(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: CallOptions) -> str:
        """The key of the order of one call; empty: it has none."""
        return self._text(options.order_key, self._order, args, kwargs)

    def _text(
        self, given: object, value: CallValue | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> str:
        if isinstance(given, str):
            return hashed(given, self._codec)
        return "" if value is None else hashed(value.text(args, kwargs), self._codec)

    def _limits_in(self, queue: str) -> list[KeyedLimit]:
        """The limits of the task and those of the queue."""
        declared = self._queues.get(queue)
        if declared is None:
            return self._limits
        known = self._by_queue.get(queue)
        if known is None or known[0] is not declared:
            known = self._by_queue[queue] = declared, self._limits + self._keyed(f"queue:{queue}", declared)
        return known[1]

    def _keyed(self, owner: str, limits: Sequence[Limit]) -> list[KeyedLimit]:
        keyed = [KeyedLimit(limit.figures(owner), self._value("by", limit.by)) for limit in limits]
        names = [limit.figures.name for limit in keyed]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(
                    f"{owner} has two limits called {name!r}: give each of them a name, or write them as one "
                    "Limit"
                )
        return keyed

    def _value(self, option: str, by: KeyOf | None) -> CallValue | None:
        return None if by is None else CallValue(option, by, self._signature, self._task)


def _limits_of(options: TaskOptions) -> list[Limit]:
    short = options.max_running is not None or options.rate_limit is not None
    own = [Limit(max_running=options.max_running, rate=options.rate_limit)] if short else []
    return own + list(options.limits)
