"""Stores the figures of limits, and reads how many jobs they count.

On a cluster, each queue counts for itself (`StreamScripts.limits`). There the figures are stored once for all
queues, and once more beside each queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS, text_of
from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting
from headrace.core.limits.paused_tasks import paused_tasks
from headrace.core.limits.rate import Rate
from headrace.core.messages.message import Stream
from headrace.stores.redis.client.cluster_slots import slot_of
from headrace.stores.redis.client.connection import Word, pack
from headrace.stores.redis.keys import stream_of
from headrace.stores.redis.scripts import SET_FIGURES
from headrace.stores.redis.server.faults import is_damaged
from headrace.stores.redis.server.labels import labels_of
from headrace.stores.redis.server.notices import Notices
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: What `set_figures` does.
DECLARE, OVERRIDE, OPEN_MORE = "d", "o", "n"

#: After so many heartbeats the figures are read also if their revision is the same: another program may have
#: written something else in their place.
READ_AGAIN = 12

#: The hashes that count by the name of a limit.
_COUNTS = ("running", "waiting", "keys")


def figures_commands(store: RedisServer) -> list[tuple[Word, ...]]:
    """Read what limits allow. `figures_in` reads the replies."""
    return [("HGETALL", f"{store.keys.limits}{name}") for name in ("figures", "overrides")]


def figures_in(declared: Any, overrides: Any) -> list[tuple[LimitFigures, LimitFigures | None]]:
    """The figures of every limit, by name. With an override: also those that the code declares."""
    found: list[tuple[LimitFigures, LimitFigures | None]] = []
    overridden = _by_name(overrides)
    for name, text in sorted(_by_name(declared).items()):
        for figures in _read(name, text):
            override = next(iter(_read(name, overridden.get(name, ""))), None)
            found.append((override, figures) if override else (figures, None))
    return found


class FiguresRead(msgspec.Struct, frozen=True):
    """What the figures of limits said when they were last read."""

    revision: Any = b"unread"
    paused: frozenset[str] = frozenset()
    beats: int = 0  # heartbeats since then

    def is_old(self, revision: Any) -> bool:
        return self.revision != revision or self.beats >= READ_AGAIN


class RedisLimits(Limiting):
    _store: RedisServer
    _figures: dict[str, LimitFigures]  # of the limits that were declared here
    _notices: Notices
    _figures_read: FiguresRead

    def use_hash_tag(self, queue: str, tag: str) -> None:
        self._store.tags[queue] = tag

    def hash_tag_of(self, queue: str) -> str:
        return self._store.tag_of(Stream("queue", queue))

    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        changed: list[LimitFigures] = []
        for figures in limits:
            self._figures[figures.name] = figures
            before = await self._set(figures.name, DECLARE, _text(figures))
            if before and before != _text(figures):
                changed += _read(figures.name, before)
        return changed

    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        return bool(await self._set(name, OVERRIDE, "" if figures is None else _text(figures)))

    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        commands = figures_commands(self._store)
        found = figures_in(*await self._store.commands(*commands, tolerates=is_damaged))
        counts = await self._counts() if counted else [Counter[str]()] * len(_COUNTS)
        records: list[LimitRecord] = []
        for figures, declared in found:
            running, waiting, keys = (count[figures.name] for count in counts)
            records.append(LimitRecord(figures, running, waiting, keys, declared))
        return records

    async def paused_tasks(self, revision: Any, *, anew: bool) -> frozenset[str]:
        """The paused tasks. Workers ask at each heartbeat, so the figures are read only after a change, with
        `anew`, and from time to time."""
        read = self._figures_read
        if anew or read.is_old(revision):
            found = await self._store.commands(*figures_commands(self._store), tolerates=is_damaged)
            await self.heal_figures(*found)
            read = FiguresRead(revision, paused_tasks(figures for figures, _ in figures_in(*found)))
        self._figures_read = msgspec.structs.replace(read, beats=read.beats + 1)
        return read.paused

    async def heal_figures(self, *hashes: Any) -> None:
        """Declare limits again where another program has written something else instead of their figures: the
        script removes it (lua/shared/limits/healing.lua)."""
        if self._figures and any(map(is_damaged, hashes)):
            self._notices.warn(
                f"{self._store.server_name} held something else in place of the figures of limits: they are "
                "declared again, and overrides of limits are gone"
            )
            await self.declare_limits([*self._figures.values()])

    async def declare_again(self) -> None:
        """Store the figures that were declared here and are gone: the server was emptied."""
        commands = figures_commands(self._store)
        known = _by_name((await self._store.commands(*commands, tolerates=is_damaged))[0])
        await self.declare_limits([each for name, each in self._figures.items() if name not in known])

    async def copy_figures(self, stream: Stream) -> None:
        """Give a queue of a cluster the figures of all limits."""
        queue = self._store.queue(stream)
        found = await self._store.commands(*figures_commands(self._store), tolerates=is_damaged)
        for hash, known in zip((b"figures", b"overrides"), found, strict=True):
            if known and not is_damaged(known):
                await self._store.command("HSET", queue.limits + hash, *known)

    async def _set(self, name: str, verb: str, text: str) -> str:
        """Store figures; answers those that were declared before, empty: none were."""
        before = await self._open_all(None, name, verb, text)
        if self._store.is_cluster:
            for queue in await self._queues():
                await self._open_all(queue, name, verb, text)
        return before

    async def _open_all(self, queue: StreamScripts | None, name: str, verb: str, text: str) -> str:
        reply = await self._store.run(self._call(queue, name, verb, text, ""))
        before, last = text_of(reply[0]), reply[1]
        while last:
            _, last = await self._store.run(self._call(queue, name, OPEN_MORE, text, last))
        return before

    def _call(self, queue: StreamScripts | None, *args: Word) -> ScriptCall:
        prefix = queue.limits if queue else self._store.keys.limits.encode()
        own: tuple[Word, ...] = (queue.keys.prefix, queue.label) if queue else ("", "")
        context = (self._store.offset_us(), self._store.keys.notices, *own)
        words = (b"EVALSHA", SET_FIGURES.digest, 1, prefix, *context, *args)
        return ScriptCall(SET_FIGURES, pack(words), slot_of(prefix))

    async def _queues(self) -> list[StreamScripts]:
        """A queue for each prefix of limits: those of a hash tag share one."""
        streams = map(stream_of, await labels_of(self._store))
        queues = [self._store.queue(stream) for stream in streams if stream.kind == "queue"]
        return list({queue.limits: queue for queue in queues}.values())

    async def _counts(self) -> list[Counter[str]]:
        prefixes = [self._store.keys.limits.encode()]
        if self._store.is_cluster:
            prefixes = [queue.limits for queue in await self._queues()]
        counts = [Counter[str]() for _ in _COUNTS]
        for prefix in prefixes:
            commands = [("HGETALL", prefix + name.encode()) for name in _COUNTS]
            rows = await self._store.commands(*commands, tolerates=is_damaged)
            for count, row in zip(counts, rows, strict=True):
                count.update({name: _count(value) for name, value in _by_name(row).items()})
        return counts


def _by_name(row: Sequence[Any]) -> dict[str, str]:
    """The fields of a hash by name. Empty when another program has written something else there."""
    if is_damaged(row):
        return {}
    return {text_of(name): text_of(value) for name, value in zip(row[::2], row[1::2], strict=True)}


def _count(text: str) -> int:
    """0 when another program has written something else."""
    try:
        return int(text)
    except ValueError:
        return 0


def _text(figures: LimitFigures) -> str:
    """The figures in the form of lua/shared/limits/limits.lua."""
    rate = figures.rate
    most = "-" if figures.max_running is None else figures.max_running
    return f"{most} - - -" if rate is None else f"{most} {rate.count} {rate.per_us} {rate.burst}"


def _read(name: str, text: str) -> list[LimitFigures]:
    """The figures; none when another program has written something else."""
    try:
        most, *rate = (None if word == "-" else int(word) for word in text.split())
        count, per_us, burst = rate
        if count is None or per_us is None or burst is None:
            return [LimitFigures(name, most)]
        stored = msgspec.convert({"count": count, "per_us": per_us, "burst": burst}, Rate)
        return [LimitFigures(name, most, stored)]
    except DECODE_ERRORS:
        return []
