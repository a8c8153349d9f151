"""Sends commands to a cluster: each queue and each topic is on the node that owns its slot."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import TimeSource
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.address import Address, HostPort
from headrace.stores.redis.client.cluster_nodes import ClusterNodes, NodeRequest
from headrace.stores.redis.client.cluster_slots import AnyNode, ClusterSlots, SlotOwner, slot_of
from headrace.stores.redis.client.connection import Finder, Greeting, Hearing, Link, Wire, Word, pack
from headrace.stores.redis.health.permissions import Probe, probe_keys
from headrace.stores.redis.keys import label_of
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

from .faults import DamagedReply, error_of, leads_elsewhere, lost, passes_soon, redirection_of
from .notices import Notices
from .server import RedisServer
from .server_info import ServerInfo


class ClusterStore(RedisServer):
    """Each key of the namespace may be on a different node, so no command touches two of them."""

    is_cluster = True

    def __init__(self, address: Address, namespace: str, clock: TimeSource) -> None:
        self._slots = ClusterSlots(address)
        self._servers: dict[HostPort, ServerInfo] = {}
        self._notices = Notices()
        self._stored_tags: dict[str, str] = {}
        super().__init__(address, namespace, clock)
        self._nodes = ClusterNodes(self._slots, self._main_link)
        # One node is inspected in place of all.
        owner = SlotOwner(self._slots, address, slot_of(probe_keys(namespace)[0].encode()))
        self.link = self._add(Link(address, finder=owner, greet=self._greet, life=self.life))

    # --- hash tags ---------------------------------------------------------------------------------------

    def tag_of(self, stream: Stream) -> str:
        if stream.kind != "queue":
            return ""
        return self.tags.get(stream.name) or self._stored_tags.get(stream.name, "")

    async def learn_tags(self) -> None:
        try:
            row = await self.command("HGETALL", self.keys.tags)
        except BackendUnavailable:
            return  # a queue that is used for the first time asks again
        names = [text_of(word) for word in row]
        self._stored_tags = dict(zip(names[::2], names[1::2], strict=True))
        self._use_tags()

    async def list_streams(self, *streams: Stream, relayed: bool = False) -> None:
        for stream in streams:
            if stream.kind == "queue":
                try:
                    await self._agree_on_tag(stream)
                except BackendUnavailable as error:
                    self.pass_over(self.queue(stream), error)  # the node of all names cannot be reached
        await super().list_streams(*streams, relayed=relayed)

    async def _agree_on_tag(self, stream: Stream) -> None:
        """Store the tag that this process declares, unless the queue is in use without it."""
        wanted, known = self.tags.get(stream.name), await self._stored_tag(stream)
        if wanted and not known:
            labels = await self.command("SMEMBERS", self.keys.streams)
            if label_of(stream).encode() not in labels:
                await self.command("HSET", self.keys.tags, stream.name, wanted)
                known = wanted
        if wanted and known != wanted:
            now = f"with hash_tag={known!r}" if known else "without a hash tag"
            raise ConfigurationError(
                f"queue {stream.name!r} is in use {now}, and hash_tag={wanted!r} is declared: declare it as "
                "it is, or use another name"
            )
        if known:
            self._stored_tags[stream.name] = known
        self._use_tags()

    async def _stored_tag(self, stream: Stream) -> str:
        known = await self.command("HGET", self.keys.tags, stream.name)
        return text_of(known) if known else ""

    def _use_tags(self) -> None:
        """Forget the keys of queues that have got another tag."""
        for stream, queue in list(self._queues.items()):
            if queue.tag != self.tag_of(stream):
                del self._queues[stream]

    # --- connections -------------------------------------------------------------------------------------

    def new_link(
        self,
        *,
        greet: Greeting | None = None,
        hear: Hearing | None = None,
        queue: StreamScripts | None = None,
    ) -> Link:
        """A connection to the node that owns the queue; without a queue, to any node."""
        finder: Finder = AnyNode(self._slots, self.address)
        if queue is not None:
            finder, greet = SlotOwner(self._slots, self.address, queue.slot), self._accompany
        return self._add(Link(self.address, finder=finder, greet=greet, hear=hear, life=self.life))

    def new_way(self, greet: Greeting) -> ClusterNodes:
        return ClusterNodes(self._slots, lambda place: self._node_link(place, greet))

    async def wire_to(self, queue: StreamScripts, way: Link | ClusterNodes) -> Wire:
        assert isinstance(way, ClusterNodes)
        return await way.wire_for(queue.slot)

    async def run_id(self, queue: StreamScripts) -> str:
        wire = await self.wire_to(queue, self._nodes)
        return self._servers.get(_place_of(wire), self.server).run_id

    def beside(self, wire: Wire) -> Wire | None:
        return self._nodes.at(_place_of(wire)).wire

    async def announce_elsewhere(self, wire: Wire, channel: str) -> bool:
        others = [place for place in self._slots.primaries if place != _place_of(wire)]
        if not others:
            return False
        try:
            other = await self._nodes.wire_to(random.choice(others))  # nosec B311 # any will do
            [reply] = await other.send(pack(("PUBLISH", channel, "pulse")))
        except BackendUnavailable:
            return False  # a node that cannot be reached says nothing about the others
        return not isinstance(reply, ReplyError)  # a user that may only read gets an error

    def doubt(self) -> None:
        self._slots.doubt()

    def leave(self) -> None:
        if not self.life.on_own_loop:
            self._slots.abandon()
        super().leave()

    def _main_link(self, place: HostPort) -> Link:
        return self._node_link(place, self._greet)

    def _node_link(self, place: HostPort, greet: Greeting | None) -> Link:
        return self._add(Link(self.address.at(place), greet=greet, life=self.life))

    async def _accompany(self, wire: Wire) -> None:
        """Open a second connection to the same node: it unblocks the one that blocks."""
        await self._nodes.wire_to(_place_of(wire))

    async def _greet(self, wire: Wire) -> None:
        await super()._greet(wire)
        self._servers[_place_of(wire)] = self.server

    async def probes(self) -> list[Probe]:
        return [
            Probe(await self._nodes.wire_for(slot_of(key.encode())), (key, key))
            for key in probe_keys(self.namespace)
        ]

    async def servers(self) -> list[Link]:
        await self._slots.any_node()  # this learns the primaries
        return [self._nodes.at(place) for place in self._slots.primaries]

    def pass_over(self, queue: StreamScripts, error: BackendUnavailable) -> None:
        """Go on: other queues may be on nodes that can be reached."""
        if isinstance(error, DamagedReply):
            return
        self._notices.warn(f"{queue.label} must do without a node of the cluster: {error}")

    # --- requests ----------------------------------------------------------------------------------------

    def share(self, queue: StreamScripts) -> int:
        return queue.slot

    async def run_all(
        self,
        calls: Sequence[ScriptCall],
        link: Link | ClusterNodes | None = None,
        *,
        tolerates: Callable[[Any], bool] | None = None,
    ) -> list[Any]:
        if isinstance(link, Link):
            return await super().run_all(calls, link, tolerates=tolerates)
        requests = [NodeRequest(call.packed, call.slot, call.script) for call in calls]
        return await self._carry_out(requests, link or self._nodes, tolerates)

    async def commands(
        self,
        *commands: tuple[Word, ...],
        tolerates: Callable[[Any], bool] | None = None,
        queue: StreamScripts | None = None,
    ) -> list[Any]:
        requests = [
            NodeRequest(pack(words), _slot_of(words) if queue is None else queue.slot) for words in commands
        ]
        return await self._carry_out(requests, self._nodes, tolerates)

    async def _carry_out(
        self, requests: list[NodeRequest], nodes: ClusterNodes, tolerates: Callable[[Any], bool] | None
    ) -> list[Any]:
        replies = await nodes.carry_out(requests)
        if any([type(reply) is ReplyError for reply in replies]):
            self.check([reply for reply in replies if not (tolerates and tolerates(reply))], None)
        return replies

    def check(self, replies: Sequence[Any], link: Link | None) -> None:
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        if not errors:
            return
        for error in errors:
            self._take_note(error, link)
        uncertain = len(errors) < len(replies)
        if redirection_of(errors[0]) is not None:
            raise lost(
                f"{self.server_name} has moved a queue to another node ({errors[0]})", uncertain=uncertain
            )
        raise error_of(errors[0], self.server_name, uncertain=uncertain)

    def _take_note(self, error: ReplyError, link: Link | None) -> None:
        """Learn from an error where slots are, and drop connections that lead to the wrong node."""
        host = link.wire.address.host if link is not None and link.wire is not None else ""
        redirection = redirection_of(error, host)
        if redirection is not None and not redirection.asks and redirection.place[0]:
            self._slots.learn(redirection.slot, redirection.place)
        elif leads_elsewhere(error) or passes_soon(error):
            self._slots.doubt()
        if link is not None and (redirection is not None or leads_elsewhere(error)):
            link.drop()


def _place_of(wire: Wire) -> HostPort:
    return wire.address.host, wire.address.port


def _slot_of(words: tuple[Word, ...]) -> int:
    """The slot of the key. The key is the first word after the command in all plain commands that we send."""
    key = words[1] if len(words) > 1 else ""
    return slot_of(key if isinstance(key, bytes) else str(key).encode())
