"""SIGTERM, and a second one soon after."""

from __future__ import annotations

import signal

from tests.torture.arena import Arena, Fault
from tests.torture.fleet import ENDS, Role

ROLES: tuple[Role, ...] = ("worker", "producer")


def _terminates(role: Role, times: int) -> Fault:
    name = f"{role}-terminated" + ("-twice" if times > 1 else "")

    async def inject(arena: Arena) -> None:
        member = arena.one(role)
        # A second signal leaves little time for the last writes.
        async with arena.fault(name, member.name, gentle=times == 1):
            for _ in range(times):
                member.send(signal.SIGTERM)
                await arena.pause(seconds=arena.random.uniform(0.05, 0.3))
            await arena.fleet.until(lambda: member.ended, ENDS)
        await arena.fleet.fill_up()

    return Fault(name, inject)


FAULTS = [_terminates(role, times) for role in ROLES for times in (1, 2)]
