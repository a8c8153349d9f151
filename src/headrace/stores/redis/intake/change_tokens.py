"""Finds out with one plain command whether a message was queued since the last look. Readers that do not
block use it.

A claim that finds a queue empty leaves a token there. The next message that is queued removes the token
(`lua/claim/claim.lua`, `lua/shared/messages/queueing.lua`). So a queue has nothing new while it still has the
token that the last look found or left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any

from headrace.stores.redis.client.connection import Link, pack
from headrace.stores.redis.stream_scripts import StreamScripts

#: Seconds after which a reader looks even if the tokens are unchanged: a token does not show that a group was
#: destroyed by hand. A token must live longer than this.
LOOK = 60.0


class ChangeTokens:
    """The tokens of the queues that one reader looks at."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tokens: dict[StreamScripts, bytes] = {}
        self._looked_at = -inf

    def note(self, queues: Sequence[StreamScripts], tokens: Sequence[Any]) -> None:
        """Remember the tokens that a look at these queues found or left."""
        self._looked_at = time.monotonic()
        self._tokens = {queues[index - 1]: token for index, token in tokens}

    async def are_unchanged(self, queues: Sequence[StreamScripts]) -> bool:
        """Whether nothing was queued in any of the queues since the last look. False for a group: its topic
        may have events that the group has not drawn yet."""
        is_recent = time.monotonic() < self._looked_at + LOOK
        if not is_recent or any(
            queue.stream.kind == "group" or queue not in self._tokens for queue in queues
        ):
            return False
        commands = [pack(("GET", queue.keys.awaited)) for queue in queues]
        replies = await self._link.ask(b"".join(commands), len(commands))
        # An error reply counts as a change. The look that follows raises the error.
        return replies == [self._tokens[queue] for queue in queues]
