"""Which rounds a campaign runs: every fault on every family of stores, alone and in random pairs."""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
from collections.abc import Collection, Iterator, Sequence
from itertools import cycle
from random import Random

import msgspec
import psycopg

from . import workloads as all_workloads
from .arena import Arena, Fault
from .campaign import RoundPlan
from .faults import all_faults, faults_for
from .fleet import ServerError
from .stores import family_of

#: The workloads of the usual rounds, in turn.
TURNS = ("events", "jobs", "events", "limits", "jobs", "events", "transactions", "jobs")

#: Stores of several servers.
GROUPS = ("sentinel", "cluster")

#: Seconds of the lease where recovery is measured.
DEFAULT_LEASE = 15.0

#: The faults after which recovery is measured. Those of the server have a round of their own: after an outage
#: nothing is taken from workers for one lease.
MEASURED = (
    ("worker-killed", "worker-terminated", "worker-killed", "worker-terminated"),
    ("server-killed", "server-restarted", "link-half-open"),
)

#: Faults of one round, one after the other: a fleet is started once for all of them.
TOGETHER = 8

#: Messages a second of each producer where recovery is measured on several stores at once.
RECOVERY_RATE = 100.0

#: The rate on a store that is slower than the others: each of nine groups draws every event.
RATES = {("postgres", "events"): 60.0}


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
    """What fits into minutes: every fault once, with a workload in turn. Those that every store can have are
    divided between SQLite, the servers and PostgreSQL. Then recovery is measured with the default lease."""
    random = Random(seed)
    servers = [store for store in stores if family_of(store) == "redis"]
    random.shuffle(servers)
    singles = [store for store in ("sqlite", *servers[:1], "postgres") if store in stores]
    left_out = _divided(random, singles)
    plans: list[RoundPlan] = []
    turns = cycle(TURNS)
    for store in [store for store in stores if store in singles or family_of(store) in GROUPS]:
        takers = cycle(servers if store in servers else [store])
        for taker, chunk in zip(
            takers, _chunks(random, store, without=left_out.get(store, ())), strict=False
        ):
            plan = _plan(seed, taker, _workload(chunk, turns), chunk, len(plans))
            # Groups of servers need time to agree, and little else.
            beside = store in GROUPS[1:] and GROUPS[0] in stores
            plans.append(msgspec.structs.replace(plan, beside=beside))
    return plans + recovery_rounds(seed, singles)


def _divided(random: Random, stores: Sequence[str]) -> dict[str, set[str]]:
    """Each fault that all stores can have, and each step of a clock, is for one of them: which names each
    store leaves out."""
    families = set(map(family_of, stores))
    common = [fault for fault in faults_for() if fault.families >= families or fault.clock]
    left_out: dict[str, set[str]] = {store: set() for store in stores}
    for number, fault in enumerate(random.sample(common, len(common))):
        takers = [store for store in stores if family_of(store) in fault.families]
        for store in takers:
            if store != takers[number % len(takers)]:
                left_out[store].add(fault.name)
    return left_out


def _workload(chunk: Sequence[Fault], turns: Iterator[str]) -> str:
    """The one that a fault of the chunk needs, or the next in turn."""
    return next((fault.workload for fault in chunk if fault.workload), None) or next(turns)


def recovery_rounds(seed: str, stores: Sequence[str]) -> list[RoundPlan]:
    """How long it takes until all is as before, with the default lease: on all stores at once, because such a
    round is mostly waiting."""
    plans: list[RoundPlan] = []
    for number, names in enumerate(MEASURED):
        faults = [all_faults()[name] for name in names]
        able = [store for store in stores if all(family_of(store) in fault.families for fault in faults)]
        for store in able:
            plan = _plan(f"{seed}.recovery", store, "jobs", faults, number)
            plans.append(
                msgspec.structs.replace(
                    plan, lease=DEFAULT_LEASE, rate=RECOVERY_RATE, workers=3, beside=store != able[0]
                )
            )
    return plans


def _plans(
    random: Random, seed: str, store: str, workload: str, chunks: list[list[Fault]] | None = None
) -> list[RoundPlan]:
    return [
        _plan(seed, store, workload, chunk, number)
        for number, chunk in enumerate(chunks or _chunks(random, store))
    ]


def _plan(seed: str, store: str, workload: str, faults: Sequence[Fault], number: int) -> RoundPlan:
    rate = RATES.get((family_of(store), workload))
    return RoundPlan(store, workload, tuple(faults), f"{seed}.{store}.{workload}.{number}", rate=rate)


def _group_chunk(random: Random, store: str) -> list[Fault]:
    """The faults that only this group of servers has, and one of them together with another. Two of its own
    at once would leave it in pieces."""
    family = family_of(store)
    own = [fault for fault in faults_for(family) if fault.families == {family}]
    other = random.choice([fault for fault in faults_for(family) if fault.is_plain and fault not in own])
    return [*random.sample(own, len(own)), pair(random.choice(own), other)]


def _chunks(random: Random, store: str, *, without: Collection[str] = ()) -> list[list[Fault]]:
    """The faults of a store in random order, some of them at the same time as another. Those that need the
    same of the store, such as a proxy, go together, with others that need nothing."""
    if family_of(store) in GROUPS:
        return [_group_chunk(random, store)]
    found = [fault for fault in faults_for(family_of(store)) if fault.name not in without]
    shuffled = random.sample(found, len(found))
    plain = [fault for fault in shuffled if fault.is_plain]
    alike: dict[tuple[object, ...], list[Fault]] = {}
    for fault in shuffled:
        if not fault.is_plain:
            alike.setdefault(fault.needs, []).append(fault)
    special = _merged(
        [each[start : start + TOGETHER] for each in alike.values() for start in range(0, len(each), TOGETHER)]
    )
    # A server that forgets may not be restarted by another fault.
    small = [chunk for chunk in special if chunk[0].persistent and len(chunk) < TOGETHER]
    while plain and small:
        chunk = min(small, key=len)
        if len(chunk) == TOGETHER:
            break
        chunk.append(plain.pop())
    chunks = special + [plain[start : start + TOGETHER] for start in range(0, len(plain), TOGETHER)]
    return [[*chunk, pair(*random.sample(chunk, 2))] if len(chunk) > 1 else chunk for chunk in chunks]


def _merged(chunks: list[list[Fault]]) -> list[list[Fault]]:
    """Fewer rounds: a store can have what several faults need."""
    merged: list[list[Fault]] = []
    for chunk in sorted(chunks, key=len, reverse=True):
        place = next((each for each in merged if _fit(each, chunk)), None)
        if place is None:
            merged.append(chunk)
        else:
            place += chunk
    return merged


def _fit(first: Sequence[Fault], second: Sequence[Fault]) -> bool:
    """Whether one round can have them all. It has one disk."""
    faults = [*first, *second]
    disks = {fault.disk for fault in faults if fault.disk}
    return len(faults) <= TOGETHER and len(disks) <= 1 and all(fault.persistent for fault in faults)


def pair(first: Fault, second: Fault) -> Fault:
    """Two faults at once. One may take away what the other needs: then all is put right afterwards."""

    async def inject(arena: Arena) -> None:
        outcomes = await asyncio.gather(first.inject(arena), second.inject(arena), return_exceptions=True)
        arena.heal()
        for outcome in outcomes:
            with contextlib.suppress(OSError, ServerError, psycopg.Error, AssertionError):
                if isinstance(outcome, BaseException):
                    raise outcome

    return Fault(
        f"{first.name}+{second.name}",
        inject,
        first.families & second.families,
        proxied=first.proxied or second.proxied,
        persistent=first.persistent and second.persistent,
        disk=first.disk or second.disk,
        clock=first.clock or second.clock,
        unprivileged=first.unprivileged or second.unprivileged,
        workload=first.workload or second.workload,
    )
