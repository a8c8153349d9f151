"""kill -9 of a worker, a producer, or a child process of a worker, and SIGTERM of a child."""

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


def _ends_child(name: str, *signals: signal.Signals) -> Fault:
    """Does nothing where no worker has a child."""

    async def inject(arena: Arena) -> None:
        for member in arena.fleet.of("worker"):
            for pid in member.children()[:1]:
                async with arena.fault(name, member.name):
                    for number in signals:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, number)
                return

    return Fault(name, inject, workload="jobs")


FAULTS = [
    _kills("worker"),
    _kills("producer"),
    _ends_child("child-killed", signal.SIGKILL),
    _ends_child("child-terminated", signal.SIGTERM),
    _ends_child("child-terminated-twice", signal.SIGTERM, signal.SIGTERM),
]
