"""Sends script calls and commands to the server, and turns its replies into answers or our errors. Also keeps
an estimate of the server's clock."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.moving.seal import Seal, decode_seal
from headrace.core.runtime.clock import TimeSource
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.address import Address, HostPort
from headrace.stores.redis.client.cluster_nodes import ClusterNodes
from headrace.stores.redis.client.connection import Greeting, Hearing, Link, Wire, Word, pack
from headrace.stores.redis.client.open_connections import OpenConnections
from headrace.stores.redis.client.sentinels import SentinelClient
from headrace.stores.redis.health.permissions import Permissions, Probe, Role, probe_keys
from headrace.stores.redis.keys import FORMAT, NamespaceKeys, label_of
from headrace.stores.redis.scripts import Script
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

from .faults import DamagedReply, OutOfMemory, error_of, is_denied, is_error, leads_elsewhere, lost
from .server_info import ServerInfo, check_server, warn_of_risks

#: Queues whose keys a process keeps without serving them. With more, it forgets the older ones.
QUEUES_MOST = 1000


class RedisServer:
    """Everything but claims uses one connection, on which many requests may be in flight at once."""

    is_cluster = False

    def __init__(self, address: Address, namespace: str, clock: TimeSource) -> None:
        self.address = address
        self.namespace = namespace
        self.keys = NamespaceKeys(namespace, address.database)
        self.server = ServerInfo()
        self.permissions = Permissions(namespace)
        self.life = OpenConnections()
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._sentinels = SentinelClient(address, self._move) if address.sentinels else None
        self.link = self.new_link(greet=self._greet)
        self._clock = clock
        self._is_movable = hasattr(clock, "offset_us")  # the clock of a test
        self._ahead_us = 0
        self._queues: dict[Stream, StreamScripts] = {}
        self._kept: set[Stream] = set()
        #: Streams that this process has added to the set of all streams.
        self.listed: set[Stream] = set()
        #: The lanes in use of each queue besides the lane of normal priority, as far as known.
        self.lanes: dict[StreamScripts, str] = {}
        #: The hash tags that this process declares, by the name of the queue.
        self.tags: dict[str, str] = {}
        #: Whether this process wants the groups that it joined to be ordered.
        self._wants_order: dict[Stream, bool] = {}

    def for_other_loop(self) -> RedisServer:
        """The same server for another event loop."""
        twin = type(self)(self.address, self.namespace, self._clock)
        twin.tags = self.tags
        return twin

    def new_link(
        self,
        *,
        greet: Greeting | None = None,
        hear: Hearing | None = None,
        queue: StreamScripts | None = None,
    ) -> Link:
        """One more connection, to the server of this queue. It lives as long as the store is open."""
        link = Link(self.address, finder=self._sentinels, greet=greet, hear=hear, life=self.life)
        return self._add(link)

    def _add(self, link: Link) -> Link:
        self._links.add(link)
        return link

    def new_way(self, greet: Greeting) -> Link | ClusterNodes:
        """A second connection for everything but claims."""
        return self.new_link(greet=greet)

    async def wire_to(self, queue: StreamScripts, way: Link | ClusterNodes) -> Wire:
        """The connection for calls about this queue."""
        assert isinstance(way, Link)
        return await way.connected()

    async def run_id(self, queue: StreamScripts) -> str:
        """The run id of this queue's server. It changes with every start and failover."""
        await self.link.connected()
        return self.server.run_id

    def pass_over(self, queue: StreamScripts, error: BackendUnavailable) -> None:
        """Go on without a queue whose keys are damaged. Any other error is raised: there is only one server,
        so no other queue can be reached either."""
        if not isinstance(error, DamagedReply):
            raise error

    def share(self, queue: StreamScripts) -> int:
        """A number. One command may read queues with the same number."""
        return 0

    def queue(self, stream: Stream) -> StreamScripts:
        queue = self._queues.get(stream)
        if queue is None:
            if len(self._queues) >= QUEUES_MOST:
                self._forget_queues()
            queue = self._queues[stream] = StreamScripts(
                self.namespace,
                stream,
                self.offset_us,
                self.address.database,
                on_cluster=self.is_cluster,
                tag=self.tag_of(stream),
            )
        return queue

    def tag_of(self, stream: Stream) -> str:
        """The hash tag of a queue on a cluster; empty: it has none."""
        return ""

    async def learn_tags(self) -> None:
        """Learn the hash tags of queues. Only a cluster has them."""

    async def list_streams(self, *streams: Stream, relayed: bool = False) -> None:
        """Add streams to the set of all streams, and say in which format they are. If that fails now, a later
        step does it. Raises `StoreMoved` when the store is sealed, unless a relay appends and the store still
        drains."""
        labels = tuple(map(label_of, streams))
        try:
            # A seal that is set after this look finds the streams in the set, and seals them, too.
            _, added, seal = await self.commands(
                ("SET", self.keys.format, FORMAT, "NX"),
                ("SADD", self.keys.streams, *labels),
                ("GET", self.keys.seal),
            )
            if isinstance(seal, bytes):
                await self._refuse(decode_seal(seal), labels if added == len(labels) else (), relayed=relayed)
        except OutOfMemory:
            return  # the step itself reports a lack of memory
        except BackendUnavailable as error:
            self.pass_over(self.queue(streams[0]), error)
            return  # a node cannot be reached
        self.listed.update(streams)

    async def _refuse(self, seal: Seal, added: Sequence[str], *, relayed: bool) -> None:
        if relayed and seal.stage == "draining":
            return
        if added:  # a user that may only produce lacks the right, and leaves an empty stream
            await self.commands(("SREM", self.keys.streams, *added), tolerates=is_denied)
        raise seal.refusal

    def known(self, stream: Stream) -> StreamScripts | None:
        """The queue of a stream; None: this process has not used it."""
        return self._queues.get(stream)

    def keep(self, stream: Stream) -> None:
        """Do not forget the queue of this stream: a worker serves it."""
        self._kept.add(stream)

    def _forget_queues(self) -> None:
        """Forget queues, except the newest and those that are served here. The next use makes it again."""
        for stream in list(self._queues)[: -QUEUES_MOST // 2]:
            if stream not in self._kept:
                self.lanes.pop(self._queues.pop(stream), None)
        self.listed &= self._queues.keys()

    def note_order(self, group: Stream, *, ordered: bool) -> None:
        self._wants_order[group] = ordered

    def wants_order(self, group: Stream) -> str:
        """Whether this process wants the group to be ordered, in the form for scripts: 1, 0, or empty when
        this process is not a member."""
        wants_order = self._wants_order.get(group)
        return "" if wants_order is None else str(int(wants_order))

    def offset_us(self) -> int:
        """How far a test has moved the clock."""
        if not self._is_movable:
            return 0
        offset: int = self._clock.offset_us  # type: ignore[attr-defined]
        return offset

    def elapsed_us(self) -> int:
        """Microseconds on a monotonic clock, which cannot be set."""
        return self._clock.elapsed_us()

    def now_us(self) -> int:
        """The store's time, estimated from its last answer. Exact enough to show, but not for decisions."""
        now_us = time.time_ns() // 1000 + self._ahead_us
        return now_us + self.offset_us() if self._is_movable else now_us

    def learn_time(self, seconds: bytes, microseconds: bytes) -> None:
        """Update the estimate with a new answer to TIME."""
        self._ahead_us = int(seconds) * 1_000_000 + int(microseconds) - time.time_ns() // 1000

    async def run(self, call: ScriptCall, link: Link | ClusterNodes | None = None) -> Any:
        return (await self.run_all((call,), link))[0]

    async def run_all(
        self,
        calls: Sequence[ScriptCall],
        link: Link | ClusterNodes | None = None,
        *,
        tolerates: Callable[[Any], bool] | None = None,
    ) -> list[Any]:
        """The answers of scripts that are sent together. They run in this order, but not as one atomic step.

        An error that the caller tolerates stays among the answers.
        """
        link = link or self.link
        assert isinstance(link, Link)
        replies = await link.ask(b"".join([call.packed for call in calls]), len(calls))
        if any([type(reply) is ReplyError for reply in replies]):
            await self._repeat(calls, replies, link)
            self.check([reply for reply in replies if not (tolerates and tolerates(reply))], link)
        return replies

    async def run_packed(self, script: Script, packed: bytes, link: Link | ClusterNodes | None = None) -> Any:
        """The answer of one script; an error is a value. A faster `run` for a single call."""
        link = link or self.link
        assert isinstance(link, Link)
        replies = await link.ask(packed)
        if type(replies[0]) is ReplyError:
            await self._repeat((ScriptCall(script, packed),), replies, link)
        return replies[0]

    async def command(self, *words: Word, queue: StreamScripts | None = None) -> Any:
        return (await self.commands(words, queue=queue))[0]

    async def commands(
        self,
        *commands: tuple[Word, ...],
        tolerates: Callable[[Any], bool] | None = None,
        queue: StreamScripts | None = None,
    ) -> list[Any]:
        """The answers to plain commands with at most one key each. Pass `queue` for commands about a queue
        that do not begin with one of its keys."""
        replies = await self.link.ask(b"".join(map(pack, commands)), len(commands))
        self.check([reply for reply in replies if not (tolerates and tolerates(reply))], self.link)
        return replies

    async def _repeat(self, calls: Sequence[ScriptCall], replies: list[Any], link: Link) -> None:
        """Load the scripts that the server has forgotten and send their calls again: none was carried out."""
        missing = [index for index, reply in enumerate(replies) if is_error(reply, "NOSCRIPT")]
        if not missing:
            return
        again = [_with_script(calls[index]) for index in missing]
        answers = await link.ask(b"".join(again), 2 * len(again))
        for index, loaded, reply in zip(missing, answers[::2], answers[1::2], strict=True):
            replies[index] = loaded if isinstance(loaded, ReplyError) else reply

    def check(self, replies: Sequence[Any], link: Link | None) -> None:
        """Raise the first error among the replies, and drop connections that lead to the wrong server."""
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        if not errors:
            return
        if any(map(leads_elsewhere, errors)):
            if link is not None:
                link.drop()
            for other in list(self._links):
                other.renounce()  # a subscription to the wrong server would never bring anything
        raise error_of(errors[0], self.server_name, uncertain=len(errors) < len(replies))

    def begin(self) -> None:
        """Allow connections from now on, by this process on this event loop."""
        self.life.begin()
        if self._sentinels is not None:
            self._sentinels.watch()

    def _move(self, place: HostPort) -> None:
        """Leave the old primary, which may hang: the sentinels have made another server the primary."""
        for link in list(self._links):
            wire = link.wire
            if wire is None or (wire.address.host, wire.address.port) != place:
                link.move()  # also one that is just connecting, perhaps to the old primary

    def leave(self) -> None:
        """Close every connection, or forget those of another event loop or process."""
        if self._sentinels is not None:
            self._sentinels.leave(on_own_loop=self.life.on_own_loop)
        end = Link.drop if self.life.on_own_loop else Link.abandon
        for link in list(self._links):
            end(link)
        self.life.end()

    async def check_permissions(self, wire: Wire) -> None:
        await self.permissions.check(await self.probes(), self.server_name, self.user)

    async def demand(self, role: Role) -> None:
        """Raise a `ConfigurationError` when this user lacks a right that the role needs."""
        if self.permissions.lacking(role):
            probes = await self.probes()
            await self.permissions.demand(role, probes, self.server_name, self.user)

    async def probes(self) -> list[Probe]:
        """Connections and keys to test rights with. The keys may belong to different servers."""
        return [Probe(await self.link.connected(), probe_keys(self.namespace))]

    async def servers(self) -> list[Link]:
        """A link to each server that holds a part of the store."""
        return [self.link]

    @property
    def user(self) -> str | None:
        """The user of the connection, as far as known; None: the default user."""
        return self.address.username if self.link.wire is None else self.link.wire.user

    @property
    def server_name(self) -> str:
        return self.address.title

    def beside(self, wire: Wire) -> Wire | None:
        """The connection for everything but claims to the same server as `wire`, if it is up."""
        main = self.link.wire
        return main if main is not None and main.address == wire.address else None

    async def announce_elsewhere(self, wire: Wire, channel: str) -> bool:
        """Publish at another server, so that it arrives at the server of `wire`. False: nothing was
        published, for example because there is only one server."""
        return False

    def doubt(self) -> None:
        """Note that the known places of servers may be out of date."""

    async def _greet(self, wire: Wire) -> None:
        asked = (("INFO",), ("CONFIG", "GET", "save"), ("TIME",))
        info, config, when = await wire.send(b"".join(map(pack, asked)), len(asked))
        if isinstance(when, ReplyError):
            raise error_of(when, self.server_name)
        self.learn_time(*when)
        # When INFO is not allowed, the checks cannot be made. That is no reason to refuse the server.
        if isinstance(info, bytes):
            text = info.decode(errors="replace")
            if "\nloading:1" in text:
                raise lost(f"{self.server_name} is still loading its data")
            self.server = check_server(text, self.server_name, in_cluster=self.is_cluster)
            warn_of_risks(text, config, wire.address, self.server_name)
        self.listed.clear()


def _with_script(call: ScriptCall) -> bytes:
    return pack((b"SCRIPT", b"LOAD", call.script.source)) + call.packed
