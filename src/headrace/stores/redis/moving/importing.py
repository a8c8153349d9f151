"""Turns a page of another store into one script call: lua/moving/import_page.lua."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import (
    START,
    Imported,
    Item,
    StoredDeferredKey,
    StoredGroup,
    StoredKey,
    StoredMessage,
    StoredPage,
    StoredPause,
    StoredStream,
    StoredTopic,
    conflict,
    takes_layout,
)
from headrace.core.rules.layout import decode_layout
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import stored_constraints
from headrace.stores.redis.keys import QueueKeys, TopicKeys, label_of
from headrace.stores.redis.scripts import IMPORT_PAGE, rules_text
from headrace.stores.redis.server.faults import conflict_in
from headrace.stores.redis.server.server import RedisServer

from .aside_keys import unique_prefix
from .end_records import end_record

#: The place of a message that is not in a lane.
PLACES: Final = {"scheduled": "S", "retrying": "R", "dead": "D", "parked": "K"}

#: The place of the first entry of a message that a worker of the other store had.
ELSEWHERE: Final = "40-0"

_KINDS: Final = {"finished": "f", "started": "s", "spent": "s", "elapsed": "e"}


async def imported(store: RedisServer, origin: Stream, move: str) -> Imported:
    meta = store.queue(origin).keys.meta
    count, _, place = (await store.command("HGET", meta, f"import {move}") or b"0 ").partition(b" ")
    return Imported(place.decode(), int(count))


async def import_page(store: RedisServer, stream: Stream, page: StoredPage, *, move: str) -> None:
    before = await imported(store, stream, move)
    if before.place != page.after:
        return
    if page.after == START:
        topic = [Stream("topic", stream.topic)] if stream.kind == "group" else []
        await store.list_streams(*topic, stream)
    words = _PageWords(store, stream)
    for item in page.items:
        await words.add(item)
    reached = f"{before.count + page.count} {page.next}"
    call = store.queue(stream).call(IMPORT_PAGE, move, page.after, reached, *words.all())
    [reply] = await store.run_all((call,), tolerates=lambda reply: conflict_in(reply) is not None)
    if (problem := conflict_in(reply)) is not None:
        raise conflict(stream, problem)


class _PageWords:
    """The parts of a page, as the header of the script describes them."""

    def __init__(self, store: RedisServer, stream: Stream) -> None:
        self._store = store
        self._stream = stream
        self._keys: QueueKeys = store.queue(stream).keys
        self._words: list[Word] = []
        self._deferred: list[StoredDeferredKey] = []

    def all(self) -> list[Word]:
        if self._deferred:
            low = min(each.number for each in self._deferred)
            self._command("HSET", self._keys.meta, "low", low, "deferring", len(self._deferred))
        return self._words

    async def add(self, item: Item) -> None:
        match item:
            case StoredMessage():
                await self._message(item)
            case LogEntry():
                self._event(item)
            case StoredStream():
                await self._settings(item)
            case StoredTopic():
                self._words += ("L",)
                rules = rules_text(item.rules)
                self._command("HSET", self._keys.meta, "rules", rules, "last", item.last)
            case StoredGroup():
                self._group(item)
            case StoredDeferredKey():
                self._deferred.append(item)
                value = f"{item.number} {item.passed} {int(item.drawable)}"
                self._command("HSET", self._key("deferred"), item.key, value)
            case StoredKey():
                key = unique_prefix(self._keys) + item.key.encode()
                self._set(key, f"{item.until_us} {item.id}", item.until_us)
            case StoredPause():
                self._pause(item)
            case ScheduleRecord():
                await self._schedule(item)

    def _command(self, *words: Word) -> None:
        self._words += ("C", len(words), *words)

    def _key(self, name: str) -> bytes:
        return self._keys.meta.removesuffix(b"meta") + name.encode()

    def _set(self, key: bytes, value: Word, until_us: int) -> None:
        """Write a value that ends at a time, unless there is one."""
        left = (until_us - self._store.now_us()) // 1000
        if left > 0:
            self._command("SET", key, value, "NX", "PX", left)

    async def _settings(self, item: StoredStream) -> None:
        if item.lease_us is not None:
            self._command("HSETNX", self._keys.meta, "lease", item.lease_us)
        if item.paused:
            self._command("HSET", self._keys.meta, "paused", "1")
        if item.layout is not None:
            await self._layout(item.layout)

    async def _layout(self, layout: bytes) -> None:
        stored = await self._store.command("HGET", self._keys.meta, "layout")
        self._words += ("Y", stored or b"")
        if takes_layout(self._stream, stored, layout):
            sealed = int(decode_layout(layout).sealed)
            self._command("HSET", self._keys.meta, "layout", layout, "sealed", sealed)
            if sealed:
                self._command("SET", self._keys.producers, "1")
            self._command("PUBLISH", self._store.keys.notices, f"layout {label_of(self._stream)}")

    def _group(self, item: StoredGroup) -> None:
        ordering = item.ordering
        seen = ("wanted", ordering.wanted_us, "unwanted", ordering.unwanted_us)
        order = ("ordered", int(ordering.ordered), *seen)
        again = ("again", item.again) if item.again else ()
        place = ("position", item.position, "seen", item.seen_us)
        self._command("HSET", self._keys.meta, *place, *order, *again)
        groups = TopicKeys(self._store.namespace, self._stream.topic).groups
        self._command("HSET", groups, self._stream.group, "1")

    def _pause(self, item: StoredPause) -> None:
        if item.paused:
            self._command("HSET", self._keys.meta, "paused", "1")
        else:
            self._command("HDEL", self._keys.meta, "paused")
        notice = f"pause {label_of(self._stream)} {int(item.paused)}"
        self._command("PUBLISH", self._store.keys.notices, notice)

    def _event(self, item: LogEntry) -> None:
        words: list[Word] = ["i", item.id, "t", item.task, "m", item.body, "a", item.at_us]
        words += ("k", item.key) if item.key else ()
        words += ("e", item.expires_us) if item.expires_us else ()
        log = TopicKeys(self._store.namespace, self._stream.topic).log
        self._command("XADD", log, f"{item.number}-0", *words)

    async def _schedule(self, item: ScheduleRecord) -> None:
        key = self._key("sched")
        if await self._store.command("HEXISTS", key, f"l:{item.name}"):
            return
        values: dict[str, Word | None] = {
            "l:": item.last_us,
            "f:": item.fired_us or None,
            "p:": "1" if item.paused else None,
            "d:": item.definition,
            "t:": item.timing.encode(errors="surrogateescape") or None,
        }
        fields = [(f"{kind}{item.name}", value) for kind, value in values.items() if value is not None]
        self._command("HSET", key, *(word for field in fields for word in field))

    async def _message(self, item: StoredMessage) -> None:
        if item.over:
            self._set(self._keys.end_record_prefix + item.id.encode(), end_record(item), item.kept_until_us)
            return
        place = PLACES.get(item.status) or _lane(item)
        key, holds = item.order_key, item.holds_order
        if self._stream.kind == "group":
            key, holds = item.key or "", item.holds_key
        words = self._message_words(item)
        self._words += ("M", place, item.at_us, key, int(holds), len(words), *words)
        if item.holds_key and item.key and self._stream.kind == "queue":
            self._words += ("U", item.key, item.id)

    def _message_words(self, item: StoredMessage) -> list[Word]:
        """The fields of a message: lua/shared/messages/message.lua names them."""
        kind, key = self._stream.kind, item.key
        unique = f"{_KINDS.get(item.until or '', 'f')}{key}" if kind == "queue" else f"k{key}"
        late = kind == "group" and item.written_us > 0
        fields: dict[str, Word | None] = {
            "i": item.id,
            "t": item.task,
            "m": item.body or b"",
            "p": item.priority if item.priority != 1 else None,
            "c": "1" if item.child else None,
            "e": item.expires_us or None,
            "u": unique if key is not None and kind != "topic" else None,
            "k": key if kind == "topic" else item.order_key or None,
            "g": _constraints(item),
            "s": item.state,
            "a": item.written_us if late else None,
            "l": item.number or None if kind == "group" else None,
            "o": ELSEWHERE if item.handed_out else None,
            "r": item.reason,
            "f": item.failure,
        }
        return [word for name, value in fields.items() if value is not None for word in (name, value)]


def _constraints(item: StoredMessage) -> bytes | None:
    """The constraints as they are stored; empty for a job that has only an order key."""
    if item.constraints is None:
        return b"" if item.order_key else None
    return stored_constraints(item.constraints)


def _lane(item: StoredMessage) -> str:
    """The number of the lane of a queued message."""
    if not item.child:
        return str(item.lane)
    return str(0 if item.lane == 1 else item.lane + 4)
