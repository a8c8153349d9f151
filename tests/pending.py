"""Lets held messages look older on a real server, which counts leases on its own clock."""

from __future__ import annotations

from headrace.core.store import Store
from headrace.stores.redis.keys import GROUP, IN_ORDER
from headrace.stores.redis.store import RedisStore

#: More than any test holds.
MOST = 100_000


async def age_pending(store: Store, seconds: float) -> None:
    """Make every held message look this much older."""
    assert isinstance(store, RedisStore)
    server = store._store
    for stream in await store.streams():
        queue = server.queue(stream)
        keys = [queue.keys.by_lane[lane] for lane in IN_ORDER]
        asked = [("XPENDING", key, GROUP, "-", "+", MOST) for key in keys]
        replies = await server.commands(*asked, tolerates=lambda reply: isinstance(reply, Exception))
        for key, rows in zip(keys, replies, strict=True):
            for entry, consumer, idle, _ in rows if isinstance(rows, list) else []:
                older = idle + round(seconds * 1000)
                await server.command("XCLAIM", key, GROUP, consumer, 0, entry, "IDLE", older, "JUSTID")
