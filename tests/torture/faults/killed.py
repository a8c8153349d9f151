"""kill -9 of a worker, a producer, or a child process of a worker."""

from __future__ import annotations

import contextlib
import os
import signal

from tests.torture.arena import Arena, Fault
from tests.torture.fleet import Role


def _kills(role: Role) -> Fault:
    name = f"{role}-killed"

    async def inject(arena: Arena) -> None:
        member = arena.one(role)
        async with arena.fault(name, member.name):
            member.send(signal.SIGKILL)
            await arena.fleet.until(lambda: member.ended, 10)
        await arena.fleet.fill_up()

    return Fault(name, inject)


async def _kill_child(arena: Arena) -> None:
    """Does nothing where no worker has a child."""
    for member in arena.fleet.of("worker"):
        for pid in member.children()[:1]:
            async with arena.fault("child-killed", member.name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return


FAULTS = [_kills("worker"), _kills("producer"), Fault("child-killed", _kill_child)]
