"""The short form of the harness: a few faults on each kind of store, with every rule of the checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from .campaign import RoundPlan, run_round
from .checker import told
from .faults import all_faults, faults_for
from .rounds import campaign_rounds, workload_names
from .stores import family_of, kinds

ROUNDS = [
    ("sqlite", "jobs", ("worker-killed", "worker-paused-1.5-leases")),
    ("valkey-9.1", "jobs", ("worker-terminated", "server-killed", "reply-lost-of-each-kind")),
    ("valkey-9.1", "events", ("worker-killed", "clients-killed")),
    ("postgres", "transactions", ("server-killed", "commit-replies-lost")),
]


@pytest.mark.timeout(150)  # when the machine is busy; about 15 s otherwise
@pytest.mark.parametrize(("store", "workload", "faults"), ROUNDS)
async def test_faults_break_no_rule(
    store: str, workload: str, faults: tuple[str, ...], tmp_path: Path
) -> None:
    if store not in kinds():
        pytest.skip(f"no {store} server on this machine")
    chosen = tuple(all_faults()[name] for name in faults)
    # A lease that is longer than a busy machine stops all processes: that is no fault, and explains nothing.
    plan = RoundPlan(store, workload, chosen, "short", lease=3.0, rate=30.0, pause=1.0)
    result = await run_round(plan, tmp_path)
    assert result.history.faults
    assert sum(story.is_promised for story in result.history.stories()) > 50
    assert not result.broken, "\n".join(told(result.history, result.broken, plan.seed))


def test_a_campaign_has_every_workload_and_every_fault_on_every_store_that_can_have_it() -> None:
    plans = campaign_rounds("1", stores=kinds())
    for store in kinds():
        rounds = [plan for plan in plans if plan.store == store]
        assert {plan.workload for plan in rounds} == set(workload_names())
        names = {fault.name for plan in rounds for fault in plan.faults}
        possible = faults_for(family_of(store))
        if store in ("sentinel", "cluster"):  # they have the faults of a group of servers alone
            possible = [fault for fault in possible if len(fault.families) == 1]
        assert {fault.name for fault in possible} <= names


def test_a_seed_repeats_the_choices_of_a_campaign() -> None:
    first, again, other = (
        [str(plan) for plan in campaign_rounds(seed, stores=kinds())] for seed in ("1", "1", "2")
    )
    assert first == again
    assert first != other


def test_there_are_at_least_twenty_kinds_of_fault() -> None:
    assert len(all_faults()) >= 20
