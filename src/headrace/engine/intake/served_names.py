"""Selects what a worker serves: queues by their names, and subscriptions by their topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.errors import ConfigurationError
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription

#: The queues of a worker: their names, or the names with the number of slots that each may use; None: as the
#: queue is declared.
QueueNames = Sequence[str] | Mapping[str, int | None]


def chosen_queues(registry: Registry, given: QueueNames | None, *, required: bool) -> tuple[str, ...]:
    """These queues; None: all queues of tasks, and `default`. With `required`, an empty list is an error."""
    if given is None:
        return tuple(sorted(registry.queues() | {"default"}))
    if isinstance(given, str) or (required and not given):
        raise ConfigurationError(f"queues must be a list of names, not {given!r}")
    return tuple(dict.fromkeys(checked_name("queue", name) for name in given))


def chosen_slots(registry: Registry, queues: Sequence[str], given: QueueNames | None) -> dict[str, int]:
    """How many slots of the worker each of these queues may use, if not all."""
    declared = registry.declared_queues
    slots = {name: declared[name].slots for name in queues if name in declared}
    if isinstance(given, Mapping):
        for name, most in given.items():
            if most is not None:
                slots[name] = positive_number(f"the slots of queue {name!r}", most)
    return {name: most for name, most in slots.items() if most is not None}


def chosen_subscriptions(registry: Registry, given: Sequence[str] | None) -> list[Subscription]:
    """The subscriptions to these topics; None: all subscriptions."""
    if given is None:
        return list(registry.subscriptions)
    if isinstance(given, str):
        raise ConfigurationError(f"topics must be a list of names, not {given!r}")
    chosen = [each for each in registry.subscriptions if each.topic in given]
    missing = sorted(set(given) - {each.topic for each in chosen})
    if missing:
        raise ConfigurationError(f"nothing in this app is subscribed to {', '.join(missing)}")
    return chosen
