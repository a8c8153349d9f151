"""What a fault gets to work with: the fleet, the store, and the log in which it records the processes that it
hits."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final, NamedTuple

from .facts import STORE, Recorder
from .fleet import Fleet, Member, Role, briefly
from .program import Program
from .stores import Disk, Family, TortureStore


class Arena:
    """One round, as faults see it."""

    def __init__(
        self, *, program: Program, fleet: Fleet, store: TortureStore, random: Random, recorder: Recorder
    ) -> None:
        self.program = program  #: knows the harmful tasks alone, and reaches the store past the proxy
        self.fleet = fleet
        self.store = store
        self.random = random
        self.lease = fleet.lease
        self._recorder = recorder

    def one(self, role: Role) -> Member:
        return self.random.choice(self.fleet.of(role))

    async def pause(self, *, leases: float = 0.0, seconds: float = 0.0) -> None:
        await briefly(leases * self.lease + seconds)

    def heal(self) -> None:
        """Undo what a fault may have left when another took away what it needed."""
        for member in self.fleet.members:
            member.send(signal.SIGCONT)
        self.store.heal()

    @asynccontextmanager
    async def fault(
        self, name: str, *targets: str, loses: bool = False, gentle: bool = False, ahead: float = 0.0
    ) -> AsyncIterator[None]:
        """Write down when a fault begins and ends, and which processes it hits; STORE: every process
        may notice. Because of a `gentle` one, what has succeeded does not run again. `ahead`: seconds
        by which it sets the clock of the store ahead."""
        run = self._recorder.new_run()
        self._recorder.write(
            "fault_begun", run=run, value=name, targets=targets, loses=loses, gentle=gentle, ahead=ahead
        )
        try:
            yield
        finally:
            self._recorder.write("fault_ended", run=run, value=name)

    def store_fault(
        self, name: str, *, loses: bool = False, gentle: bool = False
    ) -> AbstractAsyncContextManager[None]:
        return self.fault(name, STORE, loses=loses, gentle=gentle)


#: For faults that not all families of stores can have.
REDIS: Final = frozenset[Family]({"redis"})
SQLITE: Final = frozenset[Family]({"sqlite"})
SENTINEL: Final = frozenset[Family]({"sentinel"})
CLUSTER: Final = frozenset[Family]({"cluster"})
POSTGRES: Final = frozenset[Family]({"postgres"})


def _nothing() -> str:
    return ""


class Fault(NamedTuple):
    """A kind of fault. `inject` harms, and returns when all is as before. `proxied`: the fleet must reach the
    store through the proxy. `persistent`: the server must keep what it holds over a restart. `disk`: where
    the file of SQLite must be. `clock`: the clocks of server and fleet can be set. `unprivileged`: the fleet
    is not root. `missing`: says why this machine cannot have it; then it is left out. `workload`: the one
    that has what it harms, if not all have."""

    name: str
    inject: Callable[[Arena], Awaitable[None]]
    families: frozenset[Family] = REDIS | SQLITE | SENTINEL | CLUSTER | POSTGRES
    proxied: bool = False
    persistent: bool = True
    disk: Disk = ""
    clock: bool = False
    unprivileged: bool = False
    missing: Callable[[], str] = _nothing
    workload: str = ""

    @property
    def needs(self) -> tuple[object, ...]:
        """Faults with the same needs can be in one round."""
        return self.proxied, self.persistent, self.disk, self.clock or self.unprivileged, self.workload

    @property
    def is_plain(self) -> bool:
        """Whether any round can have it."""
        return self.needs == (False, True, "", False, "")
