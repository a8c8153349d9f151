"""Random histories of a topic with parts: every group gets every event, one at a time, and an ordered one
those of a key in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Message, Stream
from headrace.core.messages.outcome import Dead, DeadReason, Done, Failure, Released, Retry, Verdict
from headrace.core.runtime.clock import SECOND
from tests.unit.engine.streams.parted_orders import PartedOrders

FAILURE: Final = Failure("ValueError", "no such row", "")

#: Keys of the events of a batch, and who publishes them; an empty one is none.
PUBLISHES = st.tuples(
    st.just("publish"), st.lists(st.sampled_from("aabbc-"), min_size=1, max_size=5), st.integers(0, 2)
)
CLAIMS = st.tuples(st.just("claim"), st.integers(1, 4), st.integers(0, 2))
#: Which of those in hand, and what becomes of it.
SETTLES = st.tuples(
    st.just("settle"),
    st.integers(0, 5),
    st.sampled_from(["done", "done", "retry", "later", "dead", "release"]),
)
WAITS = st.tuples(st.just("wait"), st.integers(1, 40), st.integers(0, 2))

HISTORIES = st.lists(st.one_of(PUBLISHES, CLAIMS, SETTLES, CLAIMS, SETTLES, WAITS), max_size=40)


class Group:
    """What a group has had so far, and what it has in hand."""

    def __init__(self, stream: Stream, *, ordered: bool) -> None:
        self.stream = stream
        self.ordered = ordered
        self.held: dict[str, Claim] = {}
        self.over: set[str] = set()
        self.touched: set[str] = set()

    def hand_out(self, claim: Claim, published: dict[str, str]) -> None:
        assert claim.id not in self.over, f"{claim.id} came again"
        assert claim.id not in self.held, f"{claim.id} came twice"
        key = published[claim.id]
        if self.ordered and key:
            same = [id for id in published if published[id] == key]
            earlier = same[: same.index(claim.id)]
            assert set(earlier) <= self.over, f"{claim.id} came before {set(earlier) - self.over}"
        self.held[claim.id] = claim


class History:
    def __init__(self, parts: int) -> None:
        self.orders = PartedOrders(parts, processes=3)
        self.published: dict[
            str, str
        ] = {}  # the key of each event, in the order in which they were published
        self.groups: list[Group] = []
        self._numbers = count(1)

    async def begin(self) -> None:
        for name, ordered in (("free", False), ("ordered", True)):
            for process in range(3):
                group = await self.orders.join(name, ordered=ordered, by=process)
            self.groups.append(Group(group, ordered=ordered))

    async def publish(self, keys: Sequence[str], process: int) -> None:
        events = [Message(f"{key}{next(self._numbers)}", "placed", b"", key=key.strip("-")) for key in keys]
        answers = await self.orders.publish_all(events, by=process)
        assert [(answer.id, answer.verdict) for answer in answers] == [
            (each.id, "accepted") for each in events
        ]
        self.published |= {event.id: event.key for event in events}

    async def claim(self, limit: int, process: int) -> None:
        for group in self.groups:
            for claim in await self.orders.claim(group.stream, limit, by=process):
                group.hand_out(claim, self.published)

    async def settle(self, which: int, what: str) -> None:
        for group in self.groups:
            if not group.held:
                continue
            id = list(group.held)[which % len(group.held)]
            claim = group.held.pop(id)
            verdict = await self.orders.settle(claim, self._outcome(claim, what))
            assert verdict is Verdict.KEPT
            if what in ("done", "dead"):
                group.over.add(id)

    def _outcome(self, claim: Claim, what: str) -> Any:
        match what:
            case "done":
                return Done()
            case "dead":
                return Dead(claim.state, DeadReason.EXHAUSTED, FAILURE)
            case "release":
                return Released()
            case _:
                return Retry(claim.state, 10 * SECOND if what == "later" else 0)

    async def wait(self, seconds: int, process: int) -> None:
        """Time passes: delayed events become due, and leases that were not renewed end."""
        self.orders.clock.advance(seconds)
        backend = self.orders.processes[process]
        sources = [group.stream for group in self.groups]
        await backend.promote(sources, limit=1000)
        recovered = (await backend.reclaim(sources, limit=1000)).recovered
        for group in self.groups:
            for each in recovered:
                if each.stream == group.stream:
                    del group.held[each.id]
                    if each.status.over:
                        group.over.add(each.id)

    async def finish(self) -> None:
        """In the end every group has had everything."""
        for _ in range(3):
            await self.wait(31, 0)
        for _ in range(len(self.published) + 1):
            await self.claim(1000, 0)
            while any(group.held for group in self.groups):
                await self.settle(0, "done")
        for group in self.groups:
            assert group.over == set(self.published)
            counts = await self.orders.backend.counts(group.stream)
            assert (counts.queued, counts.running, counts.retrying, counts.scheduled) == (0, 0, 0, 0)


async def _play(parts: int, history: list[tuple[Any, Any, Any]]) -> None:
    played = History(parts)
    await played.begin()
    actions: dict[str, Callable[[Any, Any], Coroutine[Any, Any, None]]] = {
        "publish": played.publish,
        "claim": played.claim,
        "settle": played.settle,
        "wait": played.wait,
    }
    for name, first, second in history:
        await actions[name](first, second)
    await played.finish()


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 4), HISTORIES)
def test_nothing_is_lost_or_comes_twice_or_out_of_turn(
    parts: int, history: list[tuple[Any, Any, Any]]
) -> None:
    asyncio.run(_play(parts, history))
