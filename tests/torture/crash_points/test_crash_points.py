"""Crash points: the list of awaits is complete, and no rule is broken at any of them. `make test` has a few
points. `make test-more` has all on SQLite and some on the other stores. All of them:
`python -m tests.torture.crash_points`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tests.torture.fleet import available

from .awaits import all_awaits, unknown_receivers
from .campaign import cancel_all_calls, found_points, planned_rounds, run_all
from .coverage import REASONS, never_reached
from .parts import call_names
from .point import Harm
from .rounds import PARTS, CrashRound
from .stores import Lane, lanes

VALKEY = "valkey-9.1"

#: Rounds at the same time: they mostly wait for leases.
SIDE_BY_SIDE = 4

#: Rounds in `make test`.
FEW = 8

#: The share of points to which a process may not come again: some depend on timing.
MISSED = 0.2

#: `make test-more` takes every n-th round; `python -m tests.torture.crash_points` takes all of them.
STEP = 20


def test_it_is_known_of_every_awaited_verb_whether_a_store_has_it() -> None:
    assert unknown_receivers() == set()


def test_reasons_are_of_awaits_that_exist() -> None:
    assert REASONS.keys() <= {each.name for each in all_awaits()}


@pytest.mark.timeout(150)  # when the machine is busy
async def test_every_await_is_reached_or_has_a_reason_and_a_few_of_them_break_no_rule(tmp_path: Path) -> None:
    with lanes("sqlite", SIDE_BY_SIDE, tmp_path) as opened:
        seen = await found_points(opened, PARTS)
        assert set(never_reached(seen.values())) <= REASONS.keys()
        plans = planned_rounds("sqlite", seen, get_args(Harm))
        assert len(plans) > 5 * len(all_awaits())
        await _assert_held(opened, plans[:: len(plans) // FEW])


@pytest.mark.more
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", ["sqlite", VALKEY, "memory"])
async def test_one_point_in_many_breaks_no_rule(store: str, tmp_path: Path) -> None:
    _require(store)
    with lanes(store, SIDE_BY_SIDE, tmp_path) as opened:
        seen = await found_points(opened, PARTS)
        await _assert_held(opened, planned_rounds(store, seen, get_args(Harm))[::STEP])


async def test_a_call_that_is_cancelled_at_any_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    await _assert_calls_leave_nothing("memory", ["enqueue_first", "publish_many", "result", "stop"], tmp_path)


@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", ["memory", "sqlite", VALKEY])
async def test_no_cancelled_call_leaves_anything_behind(store: str, tmp_path: Path) -> None:
    _require(store)
    await _assert_calls_leave_nothing(store, call_names(), tmp_path)


async def _assert_held(opened: list[Lane], plans: list[CrashRound]) -> None:
    results = await run_all(opened, plans, lambda _: None)
    broken = [result for result in results if result.state == "broken"]
    assert not broken, "\n".join(f"{result.round}\n{result.why}" for result in broken)
    missed = [str(result.round) for result in results if result.state == "missed"]
    assert len(missed) <= MISSED * len(results), "\n".join(missed)


async def _assert_calls_leave_nothing(store: str, names: list[str], folder: Path) -> None:
    with lanes(store, SIDE_BY_SIDE, folder) as opened:
        results = await cancel_all_calls(opened, names, lambda _: None)
    bad = [result for result in results if result.why]
    assert not bad, "\n".join(f"{result.name}\n{result.why}" for result in bad)
    assert sum(result.cancellations for result in results) > len(names)


def _require(store: str) -> None:
    if store == VALKEY and not available().get(store):
        pytest.skip(f"no {store} server on this machine")
