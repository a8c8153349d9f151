"""A move that is killed at any step goes on when it is begun again: nothing is lost or there twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.core.store import Store
from headrace.stores import open_store
from tests.integration.moving.conftest import Place
from tests.integration.moving.test_moves import ROUND, move_of
from tests.integration.support.moved_content import WORK, describe, fill, run_all

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

Open = Callable[[Place], Awaitable[Store]]

JOBS = ["child", "high", "low", "normal 1", "normal 2", "returned"]
VERBS = ("set_seal", "set_aside", "imported", "import_page")


def move(source: Place, target: Place, milliseconds: int) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.integration.programs.killed_move"]
    words = [*program, *source, *target, str(milliseconds)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [ROUND[0], *(pytest.param(*each, marks=pytest.mark.more) for each in ROUND[1:])],
)
async def test_a_process_that_is_killed_again_and_again_moves_everything(
    source_kind: str, target_kind: str, place: Callable[[str], Place], opened: Open
) -> None:
    source, target = place(source_kind), place(target_kind)
    filled = await opened(source)
    await fill(filled)
    before = await describe(filled)

    kills = 0
    while (ended := move(source, target, 2 + 4 * kills)).returncode < 0:
        kills += 1
    assert ended.returncode == 0, ended.stderr

    assert kills > 0
    assert await describe(await opened(target)) == before


class Killed(BaseException):
    """In place of the end of the process."""


class Killer:
    """Ends a move before its n-th step, or with a negative number after it. A step is the call of a verb."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._calls = 0

    async def open(self, place: Place) -> Store:
        store = open_store(place[0], namespace=place[1])
        await store.open()
        for name in VERBS:
            setattr(store, name, self._killing(getattr(store, name)))
        return store

    def _killing(self, verb: Any) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            self._calls += 1
            if self._calls == self._step:
                raise Killed
            answer = await verb(*args, **options)
            if self._calls == -self._step:
                raise Killed
            return answer

        return call


async def ends(source: Place, target: Place, step: int) -> bool:
    """Whether a move comes to its end although it is killed at this step."""
    killer = Killer(step)
    left, right = await killer.open(source), await killer.open(target)
    try:
        await move_of(left, right).run(drain_limit=10)
    except Killed:
        return False
    finally:
        await left.close()
        await right.close()
    return True


@pytest.mark.more
@pytest.mark.parametrize(("source_kind", "target_kind"), ROUND)
@pytest.mark.parametrize("side", [1, -1])
async def test_at_every_step_nothing_is_lost_and_nothing_runs_twice(
    source_kind: str, target_kind: str, side: int, place: Callable[[str], Place], opened: Open
) -> None:
    for step in range(1, 400):
        source, target = place(source_kind), place(target_kind)
        filled, there = await opened(source), await opened(target)
        await fill(filled)
        before = await describe(filled)
        if await ends(source, target, side * step):
            assert step > 15
            return
        # A worker of the target runs the jobs that have come so far. They do not come again.
        early = await run_all(there, WORK) if WORK in await there.streams() else []
        assert await ends(source, target, 0)
        if early:
            assert sorted(early + await run_all(there, WORK)) == JOBS
        else:
            assert await describe(there) == before
    raise AssertionError("the move has more steps than expected")
