"""What the suite must know of a store before it can test it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.core.runtime.clock import MovableClock
from headrace.core.store import Store


async def _no_lease_of_its_own(store: Store, seconds: float) -> None:
    """The store times its leases by the clock that it was given."""


async def _nothing_to_check(store: Store) -> None:
    """What the verbs show is all that the suite can see."""


@dataclass(frozen=True)
class StoreUnderTest:
    """How the store is made, and what it can do.

    `create(namespace, clock)` gives a store that is not opened yet. Two with the same namespace share what is
    stored, as two processes do; a new namespace is an empty store. The store tells the time by the clock.
    """

    create: Callable[[str, MovableClock], Store]

    #: A word that the store's description has.
    name: str = ""

    #: Into so many parts the queue and the topic of most tests are split. A test that cannot hold then is
    #: marked: `@pytest.mark.whole("why")`.
    parts: int = 1

    #: Whether the store can write integers of any size. Most have 64 bits.
    any_integer: bool = False

    #: Whether a server of the store tells the time as well, so that it cannot stand still in a test.
    server_clock: bool = False

    #: Makes leases older, where a server of the store times them by a clock of its own.
    age_leases: Callable[[Store, float], Awaitable[None]] = _no_lease_of_its_own

    #: Called when all messages are over: looks for what the store should have forgotten by then.
    check_forgotten: Callable[[Store], Awaitable[None]] = _nothing_to_check
