"""A store that cannot keep layouts: its streams are whole, and a caller that wants parts hears why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import Done, Settlement
from headrace.core.rules.layout import WHOLE
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.core.store import PartitionedStore, Store
from headrace.core.topics.topic import BEGINNING
from headrace.engine.streams import StreamRouter
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore

QUEUE, TOPIC = Stream("queue", "emails"), Stream("topic", "orders")


def without_parts(store: Store) -> Store:
    """The verbs of a store, without the capability to have parts."""

    def verb(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(store, name)(*args, **kwargs)

    verbs: dict[str, Any] = {name: verb(name) for name in Store.__abstractmethods__}
    verbs["description"] = store.description
    return cast(Store, type("WithoutParts", (Store,), verbs)())


@pytest.fixture
def router() -> StreamRouter:
    store = without_parts(MemoryStore(SharedState(), name="plain", clock=MovableClock()))
    assert not isinstance(store, PartitionedStore)
    return StreamRouter(store)


async def test_its_streams_are_used_as_they_are(router: StreamRouter) -> None:
    await router.declare_stream(QUEUE, microseconds(30))
    await router.append(Batch(QUEUE, "producer", 1, [Message("job", "greet", b"")]))
    [claim] = await router.claim([QUEUE], consumer="worker", limit=9, suspects=9, wait=0)
    assert (claim.id, claim.stream, claim.whole) == ("job", QUEUE, QUEUE)
    await router.settle([Settlement(claim, Done())])
    assert (await router.counts(QUEUE)).running == 0
    await router.append(Batch(TOPIC, "producer", 1, [Message("event", "placed", b"")]))
    reading = await router.read(TOPIC, BEGINNING, consumer="reader", limit=9, wait=0)
    assert [entry.id for entry in reading.entries] == ["event"]
    assert await router.layout(QUEUE) == WHOLE


@pytest.mark.parametrize("stream", [QUEUE, TOPIC], ids=["queue", "topic"])
async def test_whoever_wants_parts_hears_that_it_has_none(router: StreamRouter, stream: Stream) -> None:
    router.declare(stream, 1)
    with pytest.raises(ConfigurationError, match=r"memory \(plain\) has no partitions"):
        router.declare(stream, 2)
    with pytest.raises(ConfigurationError, match=r"memory \(plain\) has no partitions"):
        await router.split(stream, 2)
    await router.append(Batch(stream, "producer", 1, [Message("one", "greet", b"")]))
