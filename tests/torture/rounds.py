"""Which rounds a campaign runs: every fault on every store that can have it, alone and beside others."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from random import Random

from . import workloads as all_workloads
from .arena import Fault
from .campaign import RoundPlan
from .faults import faults_for
from .stores import family_of

#: Faults of one round, one after the other: a fleet is started once for all of them.
TOGETHER = 5


def workload_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(all_workloads.__path__))


def campaign_rounds(
    seed: str,
    *,
    stores: Sequence[str],
    workloads: Sequence[str] | None = None,
    faults: Sequence[Fault] | None = None,
    rounds: int | None = None,
) -> list[RoundPlan]:
    """The rounds of a seed. `faults` is the order of the one round of each store, if it is given."""
    random = Random(seed)
    plans: list[RoundPlan] = []
    for store in stores:
        for workload in workloads or workload_names():
            chunks = [list(faults)] if faults else _chunks(random, store)
            plans += [
                RoundPlan(store, workload, tuple(chunk), f"{seed}.{len(plans) + number}")
                for number, chunk in enumerate(chunks)
            ]
    return plans[:rounds]


def _chunks(random: Random, store: str) -> list[list[Fault]]:
    """The faults of a store in random order. Those that need a proxy, or a server that forgets, go
    together."""
    found = faults_for(family_of(store))
    alike: dict[tuple[bool, bool], list[Fault]] = {}
    for fault in random.sample(found, len(found)):
        alike.setdefault((fault.proxied, fault.persistent), []).append(fault)
    return [
        each[start : start + TOGETHER] for each in alike.values() for start in range(0, len(each), TOGETHER)
    ]
