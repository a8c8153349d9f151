"""Several servers that belong together, as real processes on the loopback: a primary with its replicas and
the sentinels that watch it, and a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.support.partitionable_network import Network
from tests.support.servers import HOST, PORTS, Server, ServerError, free_port, require
from tests.support.waiting import wait_until_sync

#: What the sentinels call the primary.
MASTER: Final = "jobs"

#: Milliseconds of silence after which the nodes of a cluster take one of them for dead.
SILENCE: Final = 1000

#: Milliseconds, for a cluster that no test harms: a busy machine must not cause a failover.
CALM: Final = 5000

#: The same for sentinels, which must be longer: they connect to a new primary at most once a second, so with
#: one second they soon take it for dead as well, promote another, and leave that one without a replica for
#: ten seconds, until they are sure that the first has to follow it.
SENTINEL_SILENCE: Final = 3000

#: Replicas are served at once, and are known to be there.
QUICKLY: Final = (
    *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
    *("--repl-ping-replica-period", "1"),
)

#: Slots of a cluster, and how far the port on which its nodes talk is from that for clients.
SLOTS: Final = 16384
BUS: Final = 10_000

#: Seconds until a constellation stands, and until it has recovered from a loss.
STANDS: Final = 60.0


class Sentinel(Server):
    """A process that watches a primary. Its settings are a file, which it also writes itself."""

    def __init__(
        self,
        program: Path,
        *,
        directory: Path,
        watched: Callable[[], int],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(program, directory=directory)
        self._watched = watched  # the port of the primary
        self._settings = settings or {}

    def _command_line(self, port: int) -> list[str]:
        lines = (
            f"port {port}",
            f"bind {HOST}",
            f"dir {self.directory}",
            *(f"{name} {value}" for name, value in self._settings.items()),
            f"sentinel monitor {MASTER} {HOST} {self._watched()} 2",
            f"sentinel down-after-milliseconds {MASTER} {SENTINEL_SILENCE}",
            f"sentinel failover-timeout {MASTER} 3000",
            f"sentinel parallel-syncs {MASTER} 2",
        )
        settings = self.directory / "sentinel.conf"
        settings.write_text("\n".join(lines) + "\n")
        return [str(self.program), str(settings), "--sentinel"]


class Way(NamedTuple):
    """How others reach a server through a network: its address there, and ports that lead to it."""

    address: str
    port: int
    bus: int


class Constellation:
    """Servers that are started and stopped together. With a `network` between them they can be cut off."""

    def __init__(self, network: Network | None = None) -> None:
        self.servers: list[Server] = []
        self.network = network
        self._ways: dict[Server, Way] = {}

    def _make(
        self, program: Path, directory: Path, arguments: tuple[str, ...], kind: type[Server] = Server
    ) -> Server:
        if self.network is None:
            return kind(program, directory=directory, arguments=arguments)
        made: list[Server] = []
        address = self.network.new_address()
        port = self.network.port_to(address, lambda: made[0].port)
        bus = self.network.port_to(address, lambda: made[0].port + BUS)
        way = Way(address, port, bus)
        arguments = (*arguments, "--bind-source-addr", address, *self._announcing(way))
        made.append(kind(program, directory=directory, arguments=arguments))
        self._ways[made[0]] = way
        return made[0]

    def _announcing(self, way: Way) -> tuple[str, ...]:
        """What makes a server say that it is there."""
        raise NotImplementedError

    def port_of(self, server: Server) -> int:
        """By which the others know it."""
        return self._ways[server].port if server in self._ways else server.port

    def address_of(self, server: Server) -> str:
        return self._ways[server].address

    def isolate(self, server: Server) -> None:
        """Cut it off from all others; clients still reach it."""
        assert self.network is not None
        self.network.isolate(self.address_of(server))

    def heal(self) -> None:
        assert self.network is not None
        self.network.heal()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        for server in self.servers:
            server.kill()  # nothing of it is needed any more


class Watched(Constellation):
    """A primary, two replicas or one, and three sentinels."""

    def __init__(
        self, kind: str, directory: Path, network: Network | None = None, *, replicas: int = 2
    ) -> None:
        super().__init__(network)
        self._replicas = replicas
        self._program = require(kind)
        self._directory = directory
        self.data: list[Server] = []
        self.sentinels: list[Sentinel] = []

    def start(self) -> None:
        first = self._add(self._make(self._program, self._directory / "first", QUICKLY))
        self.data.append(first)
        for name in ("second", "third")[: self._replicas]:
            arguments = (*QUICKLY, "--replicaof", HOST, str(self.port_of(first)))
            replica = self._make(self._program, self._directory / name, arguments)
            self.data.append(self._add(replica))
        _until(lambda: replicas_of(first) == self._replicas, "the replicas follow")
        for number in range(3):
            sentinel = Sentinel(
                self._program,
                directory=self._directory / f"sentinel-{number}",
                watched=lambda: self.port_of(first),
                settings=self._of_sentinel(),
            )
            self._add(sentinel)
            self.sentinels.append(sentinel)
        _until(self._are_acquainted, "the sentinels know each other")

    def _announcing(self, way: Way) -> tuple[str, ...]:
        return ("--replica-announce-ip", HOST, "--replica-announce-port", str(way.port))

    def _of_sentinel(self) -> dict[str, str]:
        """Sentinels reach each other without the network, and all others through it."""
        if self.network is None:
            return {}
        return {"bind-source-addr": self.network.new_address(), "sentinel announce-ip": HOST}

    def _add(self, server: Server) -> Server:
        self.servers.append(server)
        server.start()
        return server

    @property
    def url(self) -> str:
        places = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/{MASTER}"

    def primary(self) -> Server:
        """As the sentinels see it."""
        for sentinel in self.sentinels:
            with contextlib.suppress(OSError):
                return self.known_to(sentinel)
        raise RuntimeError("no sentinel is there")

    def known_to(self, sentinel: Sentinel) -> Server:
        match sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER):
            case [bytes(), bytes(port)]:
                return next(server for server in self.data if self.port_of(server) == int(port))
            case answer:
                raise AssertionError(f"a sentinel answers {answer!r}")

    def until_promoted(self, old: Server, *, replicas: int = 0) -> Server:
        """Wait until another server than this one is the primary, and takes writes; one with replicas, where
        writes are to be confirmed by them."""
        _until(lambda: self._has_taken_over(self.primary(), old, replicas), "a replica is promoted")
        return self.primary()

    def _has_taken_over(self, new: Server, old: Server, replicas: int) -> bool:
        return new is not old and _is_primary(new) and replicas_of(new) >= replicas

    def _are_acquainted(self) -> bool:
        """Only those who know the others and the replicas can agree on a failover."""
        others = b"slaves=%d,sentinels=3" % self._replicas
        return all(others in text_of(sentinel, "INFO", "sentinel") for sentinel in self.sentinels)


class Node(Server):
    """A node also listens on a port ten thousand further on, which must be none that clients are given."""

    def _pick_port(self) -> int:
        return free_port(range(PORTS.start - BUS, PORTS.stop - BUS), beside=BUS)


class Cluster(Constellation):
    """Three primaries, each with a third of the slots and one replica."""

    primaries: Final = 3

    def __init__(
        self, kind: str, directory: Path, network: Network | None = None, *, silence: int = SILENCE
    ) -> None:
        super().__init__(network)
        program = require(kind)
        arguments = (*QUICKLY, "--cluster-enabled", "yes", "--cluster-node-timeout", str(silence))
        self.servers: list[Server] = [
            self._make(program, directory / f"node-{number}", arguments, Node)
            for number in range(2 * self.primaries)
        ]

    def _announcing(self, way: Way) -> tuple[str, ...]:
        prefix = "--cluster-announce"
        ports = (f"{prefix}-port", str(way.port), f"{prefix}-bus-port", str(way.bus))
        return (f"{prefix}-ip", HOST, *ports)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{HOST}:{self.port_of(server)}" for server in self.servers[:2])

    def start(self) -> None:
        for epoch, server in enumerate(self.servers, 1):
            server.start()
            server.command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for number in range(self.primaries):
            primary = self.servers[number]
            primary.command("CLUSTER", "ADDSLOTS", *self.slots_of(primary))
        for server in self.servers[1:]:
            bus = self._ways[server].bus if self.network else server.port + BUS
            self.servers[0].command("CLUSTER", "MEET", HOST, self.port_of(server), bus)
        ids = [self.id_of(server).encode() for server in self.servers]
        _until(lambda: all(_knows(server, ids) for server in self.servers), "the nodes know each other")
        for primary, replica in zip(
            self.servers[: self.primaries], self.servers[self.primaries :], strict=True
        ):
            replica.command("CLUSTER", "REPLICATE", self.id_of(primary))
        _until(self.is_whole, "the cluster stands")

    def is_whole(self) -> bool:
        """Every slot is served, as all nodes see it, and every primary has a replica."""
        running = [server for server in self.servers if server.running]
        return (
            all(
                b"cluster_state:ok" in text_of(server, "CLUSTER", "INFO") and replicas_or_role(server)
                for server in running
            )
            and len({id(self.owner(slot)) for slot in (0, SLOTS // 2, SLOTS - 1)}) == self.primaries
        )

    def id_of(self, server: Server) -> str:
        return text_of(server, "CLUSTER", "MYID").decode()

    def at(self, port: int) -> Server:
        return next(server for server in self.servers if self.port_of(server) == port)

    def owner(self, slot: int) -> Server:
        """As the first node that answers sees it."""
        for server in self.servers:
            if server.running:
                return self._owner(slot, server)
        raise RuntimeError("no node is running")

    def _owner(self, slot: int, asked: Server) -> Server:
        ranges = asked.command("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        for each in ranges:
            match each:
                case [int(first), int(last), [_, int(port), *_], *_] if first <= slot <= last:
                    return self.at(port)
        raise LookupError(f"nobody owns {slot}")

    def slots_of(self, server: Server) -> list[int]:
        """Those it owned when the cluster was made."""
        number = self.servers.index(server)
        first, last = (SLOTS * each // self.primaries for each in (number, number + 1))
        return list(range(first, last))

    def owners(self) -> list[Server]:
        """Each node that owns slots, as the first node that answers sees it."""
        asked = next(server for server in self.servers if server.running)
        ranges = asked.command("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        ports = {each[2][1] for each in ranges if isinstance(each, list) and isinstance(each[2], list)}
        return [self.at(port) for port in ports if isinstance(port, int)]

    def owner_of(self, key: str) -> Server:
        return self.owner(self.slot_of(key))

    def slot_of(self, key: str) -> int:
        slot = next(server for server in self.servers if server.running).command("CLUSTER", "KEYSLOT", key)
        assert isinstance(slot, int)
        return slot

    def until_promoted(self, old: Server, slot: int) -> Server:
        """Wait until another node owns what this one did, and the cluster works."""
        _until(lambda: self._has_left(old, slot), "a replica is promoted")
        return self._owner(slot, next(each for each in self.servers if each.running and each is not old))

    def _has_left(self, old: Server, slot: int) -> bool:
        others = [server for server in self.servers if server.running and server is not old]
        return all(
            self._owner(slot, server) is not old and b"cluster_state:ok" in text_of(server, "CLUSTER", "INFO")
            for server in others
        )

    # --- a slot that moves -------------------------------------------------------------------------------

    def begin_to_move(self, slot: int, to: Server) -> Server:
        """The slot is on its way; its keys are still where they were. Answers who owns it."""
        owner = self.owner(slot)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(owner))
        owner.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        return owner

    def move_keys(self, slot: int, owner: Server, to: Server, limit: int = 1000) -> int:
        """Carry over some of its keys; answers how many."""
        keys = owner.command("CLUSTER", "GETKEYSINSLOT", slot, limit)
        assert isinstance(keys, list)
        for key in keys:
            assert isinstance(key, bytes)
            owner.command("MIGRATE", HOST, to.port, key, 0, 5000)
        return len(keys)

    def end_move(self, slot: int, to: Server) -> None:
        """The new owner first, then all others, as is advised."""
        for server in sorted(self.servers, key=lambda each: each is not to):
            if server.running and _is_primary(server):
                server.command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))


def _knows(server: Server, ids: list[bytes]) -> bool:
    """By their names: while nodes shake hands they are counted as well, but under another."""
    told = text_of(server, "CLUSTER", "NODES")
    return all(id in told for id in ids)


def replicas_or_role(server: Server) -> bool:
    """Whether it is a replica that follows, or a primary that is followed."""
    told = text_of(server, "INFO", "replication")
    return b"master_link_status:up" in told or b"state=online" in told


def follows(server: Server) -> bool:
    """Whether it is a replica that is up to date."""
    try:
        told = text_of(server, "INFO", "replication")
    except OSError:
        return False  # sentinels end all connections of a server that becomes a replica
    return b"role:slave" in told and b"master_link_status:up" in told


def replicas_of(server: Server) -> int:
    """How many follow it and are up to date."""
    return text_of(server, "INFO", "replication").count(b"state=online")


def _is_primary(server: Server) -> bool:
    try:
        return b"role:master" in text_of(server, "INFO", "replication")
    except (OSError, ServerError):
        return False


def text_of(server: Server, *words: str | int) -> bytes:
    answer = server.command(*words)
    assert isinstance(answer, bytes)
    return answer


def _until(condition: Callable[[], object], message: str) -> None:
    wait_until_sync(condition, timeout=STANDS, message=message)
