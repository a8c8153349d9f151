"""Moves what administrators have set: pauses of tasks, and other figures of limits.

What the code declares does not move, because workers declare it on the target.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting
from headrace.core.limits.paused_tasks import pause_of, paused_tasks
from headrace.core.store import Store
from headrace.engine.upkeep.heartbeat import BEAT_EVERY

#: Seconds within which each worker learns that a task is paused: with its next heartbeat.
LEARNED: Final = 1.2 * BEAT_EVERY


async def copy_steered_limits(source: Store, target: Store) -> None:
    """Set on the target what is set on the source. An override that the target has already stays."""
    if not isinstance(source, Limiting) or not isinstance(target, Limiting):
        return
    steered = await _Steered.of(source)
    await target.declare_limits(steered.pauses(paused=True))
    if steered.paused and await target.workers():
        await asyncio.sleep(LEARNED)  # otherwise these workers run such jobs as soon as they arrive
    known = {record.figures.name: record for record in await target.limits(counted=False)}
    for record in steered.overrides:
        there = known.get(record.figures.name)
        if there is None and record.declared is not None:
            await target.declare_limits([record.declared])
        if there is None or not there.is_overridden:
            await target.set_limit(record.figures.name, record.figures)


async def forget_steered_limits(source: Store) -> None:
    """Otherwise they would hold again when everything is moved back."""
    if not isinstance(source, Limiting):
        return
    steered = await _Steered.of(source)
    await source.declare_limits(steered.pauses(paused=False))
    for record in steered.overrides:
        await source.set_limit(record.figures.name, None)


class _Steered(msgspec.Struct, frozen=True):
    """The tasks that are paused in a store, and the limits that have other figures than those declared."""

    paused: frozenset[str]
    overrides: tuple[LimitRecord, ...]

    @classmethod
    async def of(cls, store: Limiting) -> _Steered:
        records = await store.limits(counted=False)
        paused = paused_tasks(record.figures for record in records)
        return cls(paused, tuple(record for record in records if record.is_overridden))

    def pauses(self, *, paused: bool) -> list[LimitFigures]:
        return [pause_of(task, paused=paused) for task in sorted(self.paused)]
