"""Counts outcomes by minute, in one hash for each minute of the namespace. A hash expires after two hours."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.encoding.decoding import text_of
from headrace.core.records.traffic import KEPT_MINUTES, MINUTE, Counting, TrafficCount, TrafficRecord
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.keys import label_of, stream_of
from headrace.stores.redis.server.server import RedisServer

#: A field in the hash of a minute is one of these words and the label of the stream.
DONE, FAILED, DEAD = "done", "failed", "dead"


class RedisTraffic(Counting):
    _store: RedisServer

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        key = self._store.keys.traffic(self._store.now_us() // MINUTE)
        commands: list[tuple[Word, ...]] = [
            ("HINCRBY", key, f"{name} {label_of(each.stream)}", count)
            for each in tallies
            for name, count in ((DONE, each.done), (FAILED, each.failed), (DEAD, each.dead))
            if count
        ]
        await self._store.commands(*commands, ("EXPIRE", key, KEPT_MINUTES * 60))

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        last = self._store.now_us() // MINUTE
        keys = [self._store.keys.traffic(last - minutes + 1 + place) for place in range(minutes)]
        found: dict[str, dict[str, list[int]]] = {}
        for place, row in enumerate(await self._store.commands(*(("HGETALL", key) for key in keys))):
            for field, count in zip(row[::2], row[1::2], strict=True):
                name, _, label = text_of(field).partition(" ")
                if name in (DONE, FAILED, DEAD) and count.isdigit():
                    counts = found.setdefault(label, {each: [0] * minutes for each in (DONE, FAILED, DEAD)})
                    counts[name][place] = int(count)
        return [
            TrafficRecord(stream_of(label), tuple(counts[DONE]), tuple(counts[FAILED]), tuple(counts[DEAD]))
            for label, counts in sorted(found.items())
        ]
