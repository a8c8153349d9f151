"""Which rounds a campaign runs: every fault on every family of stores, alone and in random pairs."""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
from collections.abc import Sequence
from random import Random

from . import workloads as all_workloads
from .arena import Arena, Fault
from .campaign import RoundPlan
from .faults import faults_for
from .fleet import ServerError
from .stores import family_of

#: Faults of one round, one after the other: a fleet is started once for all of them.
TOGETHER = 6


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
    """The rounds of a seed: every workload on every store, with every fault that it can have. `faults` is the
    order of the one round of each, if it is given; a store leaves out what it cannot have."""
    random = Random(seed)
    plans: list[RoundPlan] = []
    for store in stores:
        for workload in workloads or workload_names():
            possible = [fault for fault in faults or () if family_of(store) in fault.families]
            plans += _plans(random, seed, store, workload, [possible] if faults else None)
    return plans[:rounds]


def usual_rounds(seed: str, stores: Sequence[str]) -> list[RoundPlan]:
    """What fits into minutes: on SQLite every workload, and on servers each workload on one of them."""
    random = Random(seed)
    servers = [store for store in stores if store != "sqlite"]
    random.shuffle(servers)
    plans: list[RoundPlan] = []
    for number, workload in enumerate(workload_names()):
        if "sqlite" in stores:
            plans += _plans(random, seed, "sqlite", workload)
        if servers:
            plans += _plans(random, seed, servers[number % len(servers)], workload)
    return plans


def _plans(
    random: Random, seed: str, store: str, workload: str, chunks: list[list[Fault]] | None = None
) -> list[RoundPlan]:
    return [
        RoundPlan(store, workload, tuple(chunk), f"{seed}.{store}.{workload}.{number}")
        for number, chunk in enumerate(chunks or _chunks(random, store))
    ]


def _chunks(random: Random, store: str) -> list[list[Fault]]:
    """The faults of a store in random order, some of them at the same time as another. Those that need a
    proxy, or a server that forgets, go together."""
    found = faults_for(family_of(store))
    alike: dict[tuple[bool, bool], list[Fault]] = {}
    for fault in random.sample(found, len(found)):
        alike.setdefault((fault.proxied, fault.persistent), []).append(fault)
    chunks = [
        each[start : start + TOGETHER] for each in alike.values() for start in range(0, len(each), TOGETHER)
    ]
    return [[*chunk, pair(*random.sample(chunk, 2))] if len(chunk) > 1 else chunk for chunk in chunks]


def pair(first: Fault, second: Fault) -> Fault:
    """Two faults at once. One may take away what the other needs: then all is put right afterwards."""

    async def inject(arena: Arena) -> None:
        outcomes = await asyncio.gather(first.inject(arena), second.inject(arena), return_exceptions=True)
        arena.heal()
        for outcome in outcomes:
            with contextlib.suppress(OSError, ServerError, AssertionError):
                if isinstance(outcome, BaseException):
                    raise outcome

    return Fault(
        f"{first.name}+{second.name}",
        inject,
        first.families & second.families,
        proxied=first.proxied or second.proxied,
        persistent=first.persistent and second.persistent,
    )
