"""All rounds: which points there are, what is done at each, and how they are run, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from .point import AFTER, BEFORE, Harm, Point
from .probe import ReachedPoints
from .rounds import CallResult, CrashResult, CrashRound, enumerate_points, run_call, run_round
from .stores import Lane

T = TypeVar("T")
R = TypeVar("R")


async def found_points(lanes: Sequence[Lane], parts: Iterable[str]) -> dict[str, ReachedPoints]:
    """The points of each part. Memory ends with its process: there is nothing to recover."""
    wanted = [part for part in parts if not (lanes[0].kind == "memory" and part == "recovery")]
    found: dict[str, ReachedPoints] = {}

    async def enumerate_part(lane: Lane, part: str) -> None:
        found[part] = await enumerate_points(lane, part)

    await _spread(lanes, wanted, enumerate_part, lambda _: None)
    return {part: found[part] for part in wanted}


def planned_rounds(kind: str, seen: Mapping[str, ReachedPoints], harms: Iterable[Harm]) -> list[CrashRound]:
    """One round for each point and each harm that is possible there. A point that several parts pass is for
    the first of them."""
    taken: set[Point] = set()
    plans: list[CrashRound] = []
    for part, passed in seen.items():
        new = sorted(passed.points.keys() - taken)
        taken.update(new)
        plans += [
            CrashRound(part, point, harm)
            for harm in harms
            for point in new
            if _is_possible(kind, point, harm)
        ]
    return plans


def _is_possible(kind: str, point: Point, harm: Harm) -> bool:
    waiting = point.moment not in (BEFORE, AFTER)
    match harm:
        case "kill":
            return kind != "memory"
        case "cancel":
            return waiting or point.moment == AFTER
        case "cancel-late":
            return waiting
        case _:
            return waiting and point.verb.startswith("Child")


async def run_all(
    lanes: Sequence[Lane], plans: Sequence[CrashRound], tell: Callable[[CrashResult], None]
) -> list[CrashResult]:
    return await _spread(lanes, plans, run_round, tell)


async def cancel_all_calls(
    lanes: Sequence[Lane], names: Sequence[str], tell: Callable[[CallResult], None]
) -> list[CallResult]:
    return await _spread(lanes, names, run_call, tell)


async def _spread(
    lanes: Sequence[Lane],
    tasks: Iterable[T],
    do: Callable[[Lane, T], Awaitable[R]],
    tell: Callable[[R], None],
) -> list[R]:
    """Do them all, one at a time on each lane."""
    left, results = iter(tasks), list[R]()

    async def work(lane: Lane) -> None:
        for task in left:
            result = await do(lane, task)
            results.append(result)
            tell(result)

    await asyncio.gather(*map(work, lanes))
    return results
