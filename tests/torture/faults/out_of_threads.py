"""A worker or a producer that may start no more threads and processes for a while. The limit does not hold
for root, so the fleet is another user."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from contextlib import suppress
from functools import cache

from tests.torture.arena import Arena, Fault
from tests.torture.fleet import AS_NOBODY, Role


@cache
def _missing() -> str:
    """Whether root can start the fleet as another user."""
    if os.geteuid() != 0:
        return ""
    if shutil.which(AS_NOBODY[0]) is None:
        return f"root has no such limit, and there is no {AS_NOBODY[0]} command"
    started = subprocess.run([*AS_NOBODY, "true"], capture_output=True, check=False)
    return f"root has no such limit, and {AS_NOBODY[0]} is refused" if started.returncode else ""


def _starves(role: Role) -> Fault:
    name = f"{role}-out-of-threads"

    async def inject(arena: Arena) -> None:
        member = arena.one(role)
        async with arena.fault(name, member.name):
            with suppress(OSError):  # it may end meanwhile, by another fault
                before = resource.prlimit(member.pid, resource.RLIMIT_NPROC)
                resource.prlimit(member.pid, resource.RLIMIT_NPROC, (1, before[1]))
                await arena.pause(leases=2)
                resource.prlimit(member.pid, resource.RLIMIT_NPROC, before)

    return Fault(name, inject, unprivileged=True, missing=_missing)


FAULTS = [_starves("worker"), _starves("producer")]
