"""Reads the pages of a stream that was set aside.

A place is the name of a section and where to go on in it: `events 17`, `lane 4 1700000000000-0`, `lined 100`,
`parked 100`, `due 200`, `keys …`, `records …`. A stream has its settings first, then its sections in this
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any, Final

from headrace.core.encoding.decoding import text_of
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import (
    END,
    PAGE_BYTES,
    Item,
    StoredDeferredKey,
    StoredGroup,
    StoredKey,
    StoredMessage,
    StoredPage,
    StoredPause,
    StoredStream,
    StoredTopic,
)
from headrace.core.topics.topic import LogEntry, Ordering
from headrace.stores.redis.entries import constraints_of, message_of, read_score, readable
from headrace.stores.redis.keys import NORMAL_LANE
from headrace.stores.redis.scripts import READ_ASIDE
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.topics.topic_verbs import rules_of
from headrace.stores.redis.verbs.schedules import records_of

from .aside_keys import MessageKeys, call_with, unique_prefix
from .end_records import read_end_record
from .sealing import AsideContent

#: Messages in one page; where some of them are not small, fewer.
MESSAGES: Final = 200
LARGE_MESSAGES: Final = 5

#: The sections of messages that are not in a lane, with their status.
AGENDAS: Final = {"due": "scheduled", "retry": "retrying", "dead": "dead"}

_UNTIL: Final = {b"f": "finished", b"s": "started", b"e": "elapsed"}


class RedisAsideStream:
    """A stream that was set aside."""

    def __init__(self, store: RedisServer, stream: Stream, message_keys: MessageKeys) -> None:
        self._store = store
        self._stream = stream
        self._queue = store.queue(stream)
        self._content = AsideContent(self._queue.keys)
        self._message_keys = message_keys
        self._holders: dict[bytes, bytes] | None = None

    async def page(self, place: str) -> StoredPage:
        section, _, within = place.partition(" ")
        match section:
            case "events":
                items, following = await self._events(int(within))
            case "lane":
                items, following = await self._lane(*within.split(" "))
            case "lined":
                items, following = await self._lined(int(within))
            case "parked":
                items, following = await self._parked(int(within))
            case "due" | "retry" | "dead":
                items, following = await self._agenda(section, int(within))
            case "keys":
                items, following = await self._keys(within)
            case "records":
                items, following = await self._records(within)
            case _:
                items, following = await self._first()
        return StoredPage(tuple(items), place, following)

    # --- settings ----------------------------------------------------------------------------------------

    async def _first(self) -> tuple[list[Item], str]:
        meta = await self._meta()
        lease, paused = meta.get(b"lease", b""), meta.get(b"held") == b"1"
        is_group = self._stream.kind == "group"
        items: list[Item] = [
            StoredStream(int(lease) if lease.isdigit() else None, paused or is_group, meta.get(b"layout"))
        ]
        items += records_of(self._stream, await self._store.command("HGETALL", self._content.schedules))
        if self._stream.kind == "topic":
            return [*items, *await self._topic(meta)], "events 0"
        if is_group:
            items += await self._group(meta)
        return items, self._lane_place(0)

    async def _meta(self) -> dict[bytes, bytes]:
        return message_of(await self._store.command("HGETALL", self._queue.keys.meta))

    async def _topic(self, meta: dict[bytes, bytes]) -> list[Item]:
        log = self._content.log
        first, last = await self._store.commands(
            ("XRANGE", log, "-", "+", "COUNT", 1), ("XREVRANGE", log, "+", "-", "COUNT", 1)
        )
        if b"last" not in meta and not last:
            return []  # only its parts are used, or events that are due later
        number = max(read_score(meta.get(b"last", b"0")), _number(last[0][0]) if last else 0)
        last_us = read_score(message_of(last[0][1]).get(b"a", b"0")) if last else 0
        rules = rules_of(text_of(meta.get(b"rules", b"")))
        return [StoredTopic(rules, _number(first[0][0]) if first else number + 1, number, last_us)]

    async def _group(self, meta: dict[bytes, bytes]) -> list[Item]:
        def number(name: bytes) -> int:
            return read_score(meta.get(name, b"0"))

        ordering = Ordering(meta.get(b"ordered") == b"1", number(b"wanted"), number(b"unwanted"))
        group = StoredGroup(number(b"position"), number(b"seen"), ordering, number(b"again"))
        deferred = message_of(await self._store.command("HGETALL", self._content.deferred))
        return [group, *(_deferred(key, value) for key, value in deferred.items())]

    # --- events and messages -----------------------------------------------------------------------------

    async def _events(self, after: int) -> tuple[list[Item], str]:
        rows = await self._range(self._content.log, str(after + 1))
        items: list[Item] = []
        for entry, fields in rows:
            event = message_of(fields)
            times = (read_score(event.get(b"a", b"0")), read_score(event.get(b"e", b"0")))
            names = (text_of(event.get(b"i", b"")), text_of(event.get(b"t", b"")), event.get(b"m", b""))
            items.append(LogEntry(_number(entry), *names, *times, text_of(event.get(b"k", b""))))
        return items, f"events {_number(rows[-1][0])}" if rows else self._lane_place(0)

    def _lane_place(self, index: int) -> str:
        numbers = self._content.lane_numbers
        return f"lane {numbers[index]} 0-0" if index < len(numbers) else "lined 0"

    async def _lane(self, lane: str, after: str) -> tuple[list[Item], str]:
        index = self._content.lane_numbers.index(int(lane))
        rows = await self._range(self._content.lanes[index], f"({after}")
        if not rows:
            return [], self._lane_place(index + 1)
        at_us = [int(entry.partition(b"-")[0]) * 1000 for entry, _ in rows]
        fields = [fields for _, fields in rows]
        messages = await self._messages(fields, at_us, "queued", lanes=[int(lane)] * len(rows))
        return messages, f"lane {lane} {rows[-1][0].decode()}"

    async def _range(self, key: bytes, start: str) -> list[Any]:
        """Entries of a stream, fewer if they are large: at most `PAGE_BYTES`, or a single one."""
        rows: list[Any] = await self._store.command("XRANGE", key, start, "+", "COUNT", LARGE_MESSAGES)
        if len(rows) == LARGE_MESSAGES and _are_small(_sizes(rows)):
            rows = await self._store.command("XRANGE", key, start, "+", "COUNT", MESSAGES)
        return rows[: _fitting(_sizes(rows))]

    async def _lined(self, rank: int) -> tuple[list[Item], str]:
        """Messages with constraints that were in a line, in the order of queueing."""
        items, following = await self._waiting(self._content.lined, rank, "queued")
        return items, f"lined {following}" if following else "parked 0"

    async def _waiting(self, key: bytes, rank: int, status: Any) -> tuple[list[Item], int]:
        """Jobs that lua/moving/set_aside.lua took from lines or keys, and the next rank; 0: none is left."""
        rows = await self._read(key, str(rank))
        messages = [message_of(fields) for _, _, fields in rows if fields]
        times = [read_score(each.get(b"a", b"0")) for each in messages]
        lanes = [int(each.get(b"n", NORMAL_LANE)) for each in messages]
        items = await self._messages([fields for _, _, fields in rows if fields], times, status, lanes=lanes)
        return items, rank + len(rows) if rows else 0

    async def _parked(self, offset: int) -> tuple[list[Item], str]:
        """Messages behind others of their key, each line in its order."""
        if self._stream.kind != "group":
            items, following = await self._waiting(self._content.parked, offset, "parked")
            return items, f"parked {following}" if following else "due 0"
        lines = message_of(await self._store.command("HGETALL", self._content.lines))
        ids = [id for _, line in sorted(lines.items()) for id in line.split(b" ")[1:]]
        some = ids[offset : offset + MESSAGES]
        rows = await self._read(self._content.parked, "", *some) if some else []
        if not rows:
            return [], "due 0"
        there = [row for row in rows if row[2]]
        times = [read_score(score) for _, score, _ in there]
        messages = await self._messages([fields for _, _, fields in there], times, "parked")
        return messages, f"parked {offset + len(rows)}"

    async def _agenda(self, section: str, rank: int) -> tuple[list[Item], str]:
        key = {"due": self._content.due, "retry": self._content.retry, "dead": self._content.dead}[section]
        rows = await self._read(key, str(rank))
        if not rows:
            following = {"due": "retry 0", "retry": "dead 0", "dead": "keys "}[section]
            return [], following
        there = [row for row in rows if row[2]]
        times = [read_score(score) for _, score, _ in there]
        messages = await self._messages([fields for _, _, fields in there], times, AGENDAS[section])
        return messages, f"{section} {rank + len(rows)}"

    async def _read(self, key: bytes, rank: str, *ids: bytes) -> list[Any]:
        keys = [key, self._content.messages]
        rows: list[Any] = await self._store.run(
            call_with(READ_ASIDE, self._queue, keys, rank, MESSAGES, PAGE_BYTES, *ids)
        )
        return rows

    async def _messages(
        self, several: list[list[Any]], times: list[int], status: Any, *, lanes: Sequence[int] = ()
    ) -> list[Item]:
        messages = [message_of(fields) for fields in several]
        holding, ordered = await self._holding(messages), await self._holding_order(messages)
        return [
            self._message(message, at_us, status, lane, holds)
            for message, at_us, lane, *holds in zip(
                messages, times, lanes or [NORMAL_LANE] * len(times), holding, ordered, strict=True
            )
        ]

    async def _holding(self, messages: list[dict[bytes, Any]]) -> list[bool]:
        """Whether each message holds its key until it is released."""
        if self._stream.kind == "group":
            if self._holders is None:
                lines = message_of(await self._store.command("HGETALL", self._content.lines))
                self._holders = {key: line.partition(b" ")[0] for key, line in lines.items()}
            return [self._holders.get(each.get(b"u", b"")[1:]) == each.get(b"i") for each in messages]
        prefix = unique_prefix(self._queue.keys)
        keys = [prefix + each[b"u"][1:] for each in messages if b"u" in each]
        values = iter(await self._store.commands(*(("GET", key) for key in keys)) if keys else [])
        return [b"u" in each and next(values) == b"0 " + each[b"i"] for each in messages]

    async def _holding_order(self, messages: list[dict[bytes, Any]]) -> list[bool]:
        """Whether each job holds its order key."""
        keys = [each[b"k"] for each in messages if b"k" in each] if self._stream.kind == "queue" else []
        if not keys:
            return [False] * len(messages)
        fields = (b"k" + key for key in keys)
        holders = iter(await self._store.command("HMGET", self._content.lines, *fields))
        return [b"k" in each and next(holders) == each.get(b"i") for each in messages]

    def _message(
        self, message: dict[bytes, Any], at_us: int, status: Any, lane: int, holds: Sequence[bool]
    ) -> StoredMessage:
        unique: bytes = message.get(b"u", b"")
        is_job = self._stream.kind == "queue"
        order_key = message.get(b"k", b"") if is_job else b""
        key = unique[1:] if unique else None if is_job else message.get(b"k")
        priority = message.get(b"p", b"1")
        return StoredMessage(
            id=text_of(message.get(b"i", b"")),
            task=text_of(message.get(b"t", b"")),
            status=status,
            at_us=at_us,
            body=message.get(b"m", b""),
            lane=_lane_of(lane, status, priority),
            priority=int(priority) if priority in (b"0", b"1", b"2") else 1,
            child=b"c" in message,
            expires_us=read_score(message.get(b"e", b"0")),
            state=message.get(b"s"),
            key=None if key is None else text_of(key),
            until=_UNTIL.get(unique[:1]) if is_job else None,
            holds_key=holds[0],
            handed_out=b"o" in message,
            number=int(message.get(b"l", 0)),
            written_us=0 if is_job else read_score(message.get(b"a", b"0")),
            reason=text_of(message[b"r"]) if b"r" in message else None,
            failure=message.get(b"f"),
            constraints=readable(constraints_of, message, None) if is_job else None,
            order_key=text_of(order_key),
            holds_order=holds[1],
        )

    # --- what is found by its key ------------------------------------------------------------------------

    async def _keys(self, after: str) -> tuple[list[Item], str]:
        prefix = unique_prefix(self._queue.keys)
        some, values, last = await self._values(prefix, after)
        items: list[Item] = []
        for key, value in zip(some, values, strict=True):
            until, _, id = (value or b"0 ").partition(b" ")
            if until.isdigit() and int(until):
                items.append(StoredKey(text_of(key[len(prefix) :]), text_of(id), int(until)))
        return items, f"keys {last}" if some else "records "

    async def _records(self, after: str) -> tuple[list[Item], str]:
        prefix = self._queue.keys.end_record_prefix
        some, values, last = await self._values(prefix, after)
        if not some:
            paused = (await self._meta()).get(b"held") == b"1"
            return [StoredPause(paused)] if self._stream.kind == "group" else [], END
        records = [
            read_end_record(text_of(key[len(prefix) :]), value or b"")
            for key, value in zip(some, values, strict=True)
        ]
        return [record for record in records if record is not None], f"records {last}"

    async def _values(self, prefix: bytes, after: str) -> tuple[list[bytes], list[Any], str]:
        """Some keys with a prefix after one of them, in hexadecimal digits; their values; the last one."""
        keys = await self._message_keys.of(prefix, bytes.fromhex(after), MESSAGES)
        if not keys:
            return [], [], ""
        values = await self._store.commands(*(("GET", key) for key in keys[:LARGE_MESSAGES]))
        if _are_small([len(value or b"") for value in values]):
            values = await self._store.commands(*(("GET", key) for key in keys))
        values = values[: _fitting([len(value or b"") for value in values])]
        return keys[: len(values)], values, keys[len(values) - 1].hex()


def _lane_of(lane: int, status: str, priority: bytes) -> int:
    """The lane as `StoredMessage` numbers it."""
    if status != "queued":
        return 4 if priority not in (b"0", b"2") else 3 + int(priority)
    return 1 if lane == 0 else lane - 4 if lane > 5 else lane


def _sizes(rows: list[Any]) -> list[int]:
    return [sum(map(len, fields)) for _, fields in rows]


def _are_small(sizes: list[int]) -> bool:
    return max(sizes) <= PAGE_BYTES // MESSAGES


def _fitting(sizes: list[int]) -> int:
    """How many of the first fit into a page: one in any case."""
    reached = accumulate(sizes)
    return max(1, sum(1 for _ in takewhile(lambda size: size <= PAGE_BYTES, reached)))


def _number(entry: bytes) -> int:
    return int(entry.partition(b"-")[0])


def _deferred(key: bytes, value: bytes) -> StoredDeferredKey:
    number, passed, drawable = value.split(b" ")
    return StoredDeferredKey(text_of(key), int(number), int(passed), drawable == b"1")
