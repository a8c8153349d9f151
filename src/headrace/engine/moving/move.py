"""A move from one store to another: seal, drain, set aside, copy, compare, delete.

Each step may be repeated. A move that was interrupted goes on when it is begun again, because the seal of the
source has its id and its stage, and the target knows how far each stream has come.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Moving, SetAside
from headrace.core.moving.seal import Seal
from headrace.core.rules.layout import WHOLE, Layout, whole_stream
from headrace.core.store import PartitionedStore, Store

from .copying import Copying, verify
from .draining import Draining, Remaining
from .steered_limits import copy_steered_limits, forget_steered_limits


class Side(msgspec.Struct, frozen=True):
    """A store, and its name for people, without a password."""

    store: Store
    name: str

    @property
    def moving(self) -> Moving:
        if not isinstance(self.store, Moving):
            raise ConfigurationError(f"{self.name} cannot be moved: its content ends with its process")
        return self.store


class MoveWatcher(Protocol):
    """Learns how a move goes on."""

    def sealed(self, seal: Seal) -> None: ...

    def waits(self, remaining: Remaining) -> None: ...

    def copies(self, streams: list[SetAside]) -> None: ...

    def copied(self, count: int) -> None: ...


class StoreMove:
    def __init__(self, source: Side, target: Side, watcher: MoveWatcher) -> None:
        self._source = source
        self._target = target
        self._watcher = watcher

    async def run(self, *, drain_limit: float | None = None) -> list[SetAside] | None:
        """Move everything. Returns what was moved; None: all was moved before."""
        source, target = self._source.moving, self._target.moving
        seal = await self._sealed()
        if seal.stage == "moved":
            return None
        if seal.stage == "draining":
            await Draining(self._source.store, self._watcher.waits).run(drain_limit)
            seal = seal.at("moving")
        await source.set_seal(seal)  # again, if an earlier call was interrupted
        await self._open_target()
        await copy_steered_limits(self._source.store, self._target.store)
        streams = await source.set_aside()
        self._watcher.copies(streams)
        taken = await Copying(source, target, seal.move).run(streams, self._watcher.copied)
        verify(streams, taken)
        await forget_steered_limits(self._source.store)
        await source.set_seal(seal.at("moved"))
        return streams

    async def cancel(self) -> bool:
        """Remove the seal of a source of which nothing was copied yet. False: it was not sealed."""
        seal = await self._source.moving.seal()
        if seal is None:
            return False
        if seal.stage != "draining":
            raise ConfigurationError(
                f"the move of {self._source.name} to {seal.target} has begun to copy and cannot be cancelled:"
                " finish it, then move everything back"
            )
        await self._source.moving.set_seal(None)
        return True

    async def _sealed(self) -> Seal:
        """The seal of the source, which is made now if there is none."""
        source, target = self._source.moving, self._target.moving
        found = await source.seal()
        if found is not None and found.target != self._target.name:
            raise ConfigurationError(_other_target(self._source.name, found))
        if found is not None and found.stage != "draining":
            return found
        await self._check_target()
        seal = found or Seal(new_id(), self._target.name)
        await source.set_seal(seal)
        at_target = await target.seal()
        if at_target is not None and at_target.move == seal.move:
            await source.set_seal(None)
            raise ConfigurationError(f"{self._source.name} and {self._target.name} are the same store")
        self._watcher.sealed(seal)
        return seal

    async def _check_target(self) -> None:
        """Refuse a target that cannot take everything, before anything is sealed."""
        seal = await self._target.moving.seal()
        if seal is not None and seal.stage != "moved" and seal.target != self._target.name:
            raise ConfigurationError(
                f"{self._target.name} is being moved to {seal.target}: finish that move first"
            )
        topics = await self._source.store.topics()
        with_events = {whole_stream(record.stream) for record in topics if record.last}
        found = await self._target.store.topics()
        for topic in [whole_stream(record.stream) for record in found if record.last]:
            if topic in with_events:
                raise ConfigurationError(
                    f"topic {topic.name!r} has events in both stores. Their numbers and the"
                    " positions of groups cannot be joined: remove the topic from the target first"
                )
        await self._check_layouts({whole_stream(record.stream) for record in found})

    async def _check_layouts(self, topics: set[Stream]) -> None:
        """Refuse streams whose parts the target cannot take. `topics` are those of the target."""
        streams = dict.fromkeys(map(whole_stream, await self._source.store.streams()))
        for stream in [each for each in streams if each.kind != "group"]:
            there, here = await _layout(self._source.store, stream), await _layout(self._target.store, stream)
            if here.shape == there.shape:
                continue
            if stream.kind == "topic" and not isinstance(self._target.store, PartitionedStore):
                raise ConfigurationError(
                    f"{self._target.name} has no topics with parts, and {stream.name!r} has some: the order"
                    " and the positions in them cannot be kept there"
                )
            # A queue that is not split is the oldest part of one that is.
            whole = here.whole or (stream.kind == "queue" and there.whole)
            if not whole or stream in topics:
                raise ConfigurationError(
                    f"{stream.kind} {stream.name!r} is split in another way in {self._target.name}: it has"
                    f" {here.current.parts} parts there, and {there.current.parts} in {self._source.name}."
                    f" Move to a store in which the {stream.kind} is new"
                )

    async def _open_target(self) -> None:
        """A target from which everything was moved earlier is in use again from now on."""
        seal = await self._target.moving.seal()
        if seal is not None and seal.stage == "moved":
            await self._target.moving.set_seal(None)


async def _layout(store: Store, stream: Stream) -> Layout:
    return await store.layout(stream) if isinstance(store, PartitionedStore) else WHOLE


def _other_target(source: str, seal: Seal) -> str:
    if seal.stage == "moved":
        return f"everything in {source} was moved to {seal.target}: move it from there"
    return f"{source} is being moved to {seal.target}: finish that move first, with the same --to"
