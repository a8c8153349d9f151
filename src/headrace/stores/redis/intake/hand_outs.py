"""Notes which entries one consumer was handed out, finds those whose answer was lost, and hands back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.stores.redis.client.connection import Link, Word, pack
from headrace.stores.redis.entries import EntryToken, claims_of
from headrace.stores.redis.keys import EVERY_LANE, GROUP, Lane
from headrace.stores.redis.scripts import LIMITED, RELEASE_STARTED, RUN_AGAIN, UNSEEN
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

from .claim_request import WINDOW, ClaimRequest, batched

#: Messages of lost answers that one script looks for, at most.
UNSEEN_MOST = 500


class HandOuts:
    """Entries of a lane are handed out in ascending order. So an entry that the consumer holds beyond the
    last one it saw was handed out by a read whose answer was lost."""

    def __init__(self, store: RedisServer, link: Link, consumer: str) -> None:
        self._store = store
        self._link = link
        self._consumer = consumer
        self._seen: dict[tuple[StreamScripts, Lane], bytes] = {}  # the last entry of each lane
        self.doubtful = False  # the answer of a read was lost

    def claims(self, queue: StreamScripts, lane: Lane, entries: list[Any]) -> list[Claim]:
        """Turn the entries just read from a lane into claims, and note the last one."""
        if not entries:
            return []
        self._seen[queue, lane] = entries[-1][0]
        return claims_of(queue, lane, entries, self._consumer, self._store.now_us())

    def forget(self) -> None:
        """Forget all entries: the lanes were made again."""
        self._seen.clear()

    async def unseen(self, wanted: ClaimRequest) -> list[Claim]:
        """The claims of lost answers. `doubtful` stays set until a search finds nothing more."""
        queues = list(dict.fromkeys((*wanted.queues, *(queue for queue, _ in self._seen))))
        for some in batched(queues, WINDOW):
            # Search every lane: the lost answer may be the one that named the lanes in use.
            lanes = [(queue, lane) for queue in some for lane in EVERY_LANE]
            keys = [queue.keys.by_lane[lane] for queue, lane in lanes]
            seen = [self._seen.get(place, b"") for place in lanes]
            args: list[Word] = [GROUP, self._consumer, min(wanted.limit, UNSEEN_MOST), wanted.room, *seen]
            call = ScriptCall(UNSEEN, pack((b"EVALSHA", UNSEEN.digest, len(keys), *keys, *args)))
            more, found = await self._store.run(call, self._link)
            claims: list[Claim] = []
            for index, entries in found:
                queue, lane = lanes[index - 1]
                claims += self.claims(queue, lane, entries)
            if claims or more:
                return claims
        self.doubtful = False
        return []

    async def hand_back(self, claims: Iterable[Claim]) -> list[Claim]:
        """Queue these messages again, before all others; answers the claims for which that failed."""
        failed: list[Claim] = []
        for claim in claims:
            token, queue = cast(EntryToken, claim.token), self._store.queue(claim.stream)
            place = (claim.id, token.lane, token.entry, token.consumer)
            script = LIMITED[RUN_AGAIN] if token.limited else RUN_AGAIN
            try:
                await self._store.run(queue.call(script, *place, "L", 0, 2, ""))
            except BackendUnavailable:
                failed.append(claim)
        return failed

    async def release_started(self, claims: list[Claim]) -> None:
        """Release the unique keys that are held until a message is claimed."""
        for claim in claims:
            token = cast(EntryToken, claim.token)
            if token.unique.startswith(b"s"):
                queue = self._store.queue(claim.stream)
                try:
                    await self._store.run(queue.call(RELEASE_STARTED, claim.id, token.unique))
                except BackendUnavailable:
                    pass  # It is released when the message ends.
