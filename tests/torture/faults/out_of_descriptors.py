"""A worker or a producer that may open no more files and connections for a while."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from tests.torture.arena import Arena, Fault
from tests.torture.fleet import Role


def _starves(role: Role) -> Fault:
    name = f"{role}-out-of-descriptors"

    async def inject(arena: Arena) -> None:
        member = arena.one(role)
        async with arena.fault(name, member.name):
            with suppress(OSError):  # it may end meanwhile, by another fault
                before = resource.prlimit(member.pid, resource.RLIMIT_NOFILE)
                used = len(list(Path(f"/proc/{member.pid}/fd").iterdir()))
                resource.prlimit(member.pid, resource.RLIMIT_NOFILE, (used, before[1]))
                await arena.pause(leases=2)
                resource.prlimit(member.pid, resource.RLIMIT_NOFILE, before)

    return Fault(name, inject)


FAULTS = [_starves("worker"), _starves("producer")]
