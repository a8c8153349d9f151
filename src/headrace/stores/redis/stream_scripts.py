"""Builds script calls for one queue, with the keys and arguments that every script about it begins with."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.core.messages.message import Stream
from headrace.stores.redis.client.cluster_slots import slot_of
from headrace.stores.redis.client.connection import Word, pack

from .keys import GROUP, NamespaceKeys, QueueKeys, label_of
from .scripts import Script


class ScriptCall(msgspec.Struct, frozen=True):
    """A script with its keys and arguments, packed and ready to be sent, once or again."""

    script: Script
    packed: bytes
    slot: int = 0


class StreamScripts:
    def __init__(
        self,
        namespace: str,
        stream: Stream,
        offset_us: Callable[[], int],
        database: int = 0,
        *,
        on_cluster: bool = False,
        tag: str = "",
    ) -> None:
        self.stream = stream
        self.tag = tag
        self.keys = QueueKeys(namespace, stream, tag)
        self.label = label_of(stream)
        self.slot = slot_of(self.keys.meta)
        self.offset_us = offset_us
        #: The producer that last sent a single message, and the start of its calls (verbs/append.py).
        self.head_of_one = ("", b"")
        #: Whether something was scheduled or retrying when this process last looked (upkeep/promotion.py).
        self.has_scheduled = False
        self._head: tuple[Word, ...] = (len(self.keys.all), *self.keys.all)
        shared = NamespaceKeys(namespace, database)
        self.notices = shared.notices
        #: The prefix of what is counted for limits. On a cluster it belongs to the slot of the queue.
        self.limits = self.keys.own_limits if on_cluster else shared.limits.encode()
        #: The keys that exist while something may have to be promoted.
        self.waiting = (*self.keys.out_of_lanes, self.limits + b"timers")
        self._limited_head: tuple[Word, ...] = (len(self.keys.all) + 1, *self.keys.all, self.limits)
        self._context: tuple[Word, ...] = (GROUP, self.notices, self.label)

    def call(self, script: Script, *args: Word) -> ScriptCall:
        """A call of `script` for this queue. lua/shared/queue.lua names the arguments before `args`."""
        head = self._limited_head if script.limited else self._head
        words = (b"EVALSHA", script.digest, *head, self.offset_us(), *self._context, *args)
        return ScriptCall(script, pack(words), self.slot)
