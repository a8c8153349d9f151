"""A memory store in which a test watches verbs of the contract, replaces them, and sends control messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.core.records.control import ControlMessage, MissedNotice
from headrace.core.runtime.clock import MovableClock
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore

Listener = Callable[[ControlMessage], None]


class Calls:
    """The calls of one verb: the positional arguments of each, and how many have not returned yet."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.under_way = 0


class InterceptedStore(MemoryStore):
    def __init__(self, clock: MovableClock | None = None) -> None:
        self.clock = clock or MovableClock()
        super().__init__(SharedState(), name="test", clock=self.clock)
        self._listeners: list[Listener] = []

    def intercept(self, verb: str, replacement: Callable[..., Any]) -> None:
        """Have `replacement` answer a verb; `restore` ends it."""
        assert hasattr(type(self), verb), f"{verb} is no verb of a store"
        setattr(self, verb, replacement)

    def restore(self, verb: str) -> None:
        """Have the store answer a verb itself again."""
        delattr(self, verb)

    def watch(self, verb: str) -> Calls:
        """Count the calls of a verb from now on."""
        calls, answer = Calls(), getattr(self, verb)

        async def watched(*args: Any, **options: Any) -> Any:
            calls.made.append(args)
            calls.under_way += 1
            try:
                return await answer(*args, **options)
            finally:
                calls.under_way -= 1

        self.intercept(verb, watched)
        return calls

    def listen(self, hear: Listener) -> Callable[[], None]:
        end = super().listen(hear)
        self._listeners.append(hear)

        def end_both() -> None:
            if hear in self._listeners:
                self._listeners.remove(hear)
            end()

        return end_both

    def announce(self, message: ControlMessage) -> None:
        """Send a control message to all workers of this process."""
        for hear in list(self._listeners):
            hear(message)

    def pass_time(self, seconds: float) -> None:
        """Move the clock under running workers, which look at once for what is due now."""
        self.clock.advance(seconds)
        self.announce(MissedNotice())
