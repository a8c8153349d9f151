"""A clock that is set while all work: that of the store, or of one worker.

Nothing may run again because of this, so these faults hit no process. A store's clock that was set ahead
stays as it is: set back, it would delay what was enqueued in between. A clock that was set back is set
right again. A worker that looks only before and after both of these steps sees neither, so this fault
explains repeats. A SQLite file has the clock of its processes.
"""

from __future__ import annotations

from tests.torture.arena import POSTGRES, REDIS, SQLITE, Arena, Fault
from tests.torture.facts import STORE
from tests.torture.fleet import CLOCK_MISSING, SteppedClock

#: Seconds by which clocks are set, and how these are named.
STEPS = {60: "ahead-1-minute", -60: "back-1-minute", 3600: "ahead-1-hour", -3600: "back-1-hour"}


def _missing() -> str:
    return CLOCK_MISSING


def _of_the_store(seconds: int) -> Fault:
    name = f"store-clock-{STEPS[seconds]}"

    async def inject(arena: Arena) -> None:
        clock = _clock(arena.store.clock)
        async with arena.fault(name, *([STORE] if seconds < 0 else []), ahead=abs(seconds)):
            clock.step(seconds)
            await arena.pause(leases=2)
            if seconds < 0:
                clock.step(-seconds)

    return Fault(name, inject, REDIS | SQLITE | POSTGRES, clock=True, missing=_missing)


def _of_a_worker(seconds: int) -> Fault:
    name = f"worker-clock-{STEPS[seconds]}"

    async def inject(arena: Arena) -> None:
        clock = _clock(arena.one("worker").clock)
        async with arena.fault(name):
            clock.step(seconds)
            await arena.pause(leases=2)
            clock.step(-seconds)

    return Fault(name, inject, REDIS | POSTGRES, clock=True, missing=_missing)


def _clock(clock: SteppedClock | None) -> SteppedClock:
    assert clock is not None, "this round has no clock that can be set"
    return clock


FAULTS = [*map(_of_the_store, STEPS), *map(_of_a_worker, STEPS)]
