"""Turns the answers of a server into findings: each from a few facts of INFO, CONFIG and similar commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.records.findings import Finding, fail, ok, spoken_bytes, warn
from headrace.core.runtime.hosts import is_this_machine
from headrace.stores.redis.client.address import Address

from .known_bad import flaws_of

#: The facts in the answer to INFO, by name.
Facts = Mapping[str, str]

#: Shares of used memory: from the first on memory is short, from the second on it is nearly gone.
SHORT, GONE = 0.80, 0.95

#: How much more memory the server may hold than it uses: this share, and at least this many bytes.
SPREAD, SPREAD_BYTES = 0.5, 32 << 20

#: Seconds without a message from a replica after which it counts as lagging.
LAG = 10

#: Seconds by which two clocks may differ.
CLOCK = 1.0

#: Milliseconds beyond which a round trip is slow: at the median, and for one in a hundred.
SLOW_MEDIAN, SLOW_WORST = 5.0, 100.0

#: Number of slots in a cluster.
SLOTS = 16384


def quick_findings(facts: Facts, config: Mapping[str, str], address: Address) -> list[Finding]:
    """The findings that cost nothing. They are logged when the store is opened."""
    return [
        persistence_finding(facts, config),
        connection_finding(address),
        eviction_finding(facts),
        memory_finding(facts),
    ]


def version_finding(server: str, version: str) -> Finding:
    flaws = flaws_of(server, version)
    if not version:
        return warn("server", "it does not say what it is", "give this user the right to INFO")
    if flaws:
        known = "; ".join(f"{flaw.name}: {flaw.what}" for flaw in flaws)
        return warn(
            "server",
            f"{server} {version} is known for {known}",
            "install the latest release of its branch, unless your distribution has fixed its own package",
        )
    return ok("server", f"{server} {version}")


def connection_finding(address: Address) -> Finding:
    if address.path is not None:
        return ok("connection", "a socket of this machine")
    if address.tls is not None:
        if address.tls.verifies and address.tls.checks_name:
            return ok("connection", "TLS; certificate and host name are verified")
        gap = "the host name in the certificate" if address.tls.verifies else "the certificate"
        return warn(
            "connection",
            f"TLS, but {gap} is not verified: a machine in between can read and change everything",
            "take ssl_cert_reqs and ssl_check_hostname out of the URL; ssl_ca_certs names an authority",
        )
    if is_this_machine(address.host):
        return ok("connection", "plain text, within this machine")
    return warn(
        "connection",
        f"without TLS over the network to {address.host}: a listener on the network reads passwords and jobs",
        "use rediss://, or a tunnel",
    )


def persistence_finding(facts: Facts, config: Mapping[str, str]) -> Finding:
    """How much data the server loses when it stops. `config` is empty when CONFIG is not allowed."""
    if facts.get("loading") == "1":  # while loading, the server reports no append-only file
        return ok("persistence", "not known while it loads its data")
    if facts.get("aof_enabled") == "1":
        return _append_only_finding(facts, config)
    if "aof_enabled" not in facts:
        return ok("persistence", "not known")
    if config.get("save") == "":
        return warn(
            "persistence",
            "it keeps nothing on disk: when it stops, all jobs it has accepted are gone",
            "CONFIG SET appendonly yes, and the same in its configuration file",
        )
    if facts.get("rdb_last_bgsave_status", "ok") != "ok":
        return fail(
            "persistence",
            "the last snapshot could not be written, and the server may refuse changes because of it",
            "make room on its disk and look at its log",
        )
    return warn(
        "persistence",
        "it keeps snapshots only: jobs accepted after its last snapshot are gone when it stops",
        "CONFIG SET appendonly yes, and the same in its configuration file",
    )


def _append_only_finding(facts: Facts, config: Mapping[str, str]) -> Finding:
    if facts.get("aof_last_write_status", "ok") != "ok":
        return fail(
            "persistence",
            "the append-only file could not be written, and the server refuses changes",
            "make room on its disk and look at its log",
        )
    match config.get("appendfsync"):
        case "always":
            return ok("persistence", "append-only file, written to disk before each answer: nothing is lost")
        case "no":
            return warn(
                "persistence",
                "append-only file, written to disk when the system likes: a power failure may cost 30 s",
                "CONFIG SET appendfsync everysec, or always",
            )
        case "everysec":
            return ok("persistence", "append-only file, every second: a power failure may cost that second")
        case _:
            return ok("persistence", "append-only file; how often it reaches the disk is not known")


def durability_finding(level: str, facts: Facts, config: Mapping[str, str]) -> Finding:
    """What the durability level of the app means on this server."""
    replicas = _online(facts)
    match level:
        case "replicated" if not replicas:
            return fail(
                "durability",
                "replicated, but no replica is connected: every enqueue raises NotDurable",
                "connect a replica, or use durability='default'",
            )
        case "replicated":
            return ok("durability", "replicated: an enqueue returns when a replica has the job")
        case "fsync" if facts.get("aof_enabled") != "1":
            return fail(
                "durability",
                "fsync, but there is no append-only file: every enqueue fails",
                "CONFIG SET appendonly yes, or use durability='default'",
            )
        case "fsync":
            return _fsync_finding(config.get("appendfsync"))
        case _:
            return ok("durability", "default: an accepted job is as safe as the server's persistence")


def _fsync_finding(policy: str | None) -> Finding:
    """A waiting client does not make the server sync. The server syncs only by its own policy."""
    meaning = "fsync: an enqueue returns when the job is on the server's disk"
    match policy:
        case "no":
            return fail(
                "durability",
                "fsync, but the server leaves that to the system (appendfsync no) and cannot tell what is"
                " on disk: every enqueue raises NotDurable",
                "CONFIG SET appendfsync always, or everysec",
            )
        case "everysec":
            return ok("durability", f"{meaning}, which may take a second (appendfsync everysec)")
        case _:
            return ok("durability", meaning)


def eviction_finding(facts: Facts) -> Finding:
    policy = facts.get("maxmemory_policy", "")
    remedy = "CONFIG SET maxmemory-policy noeviction, or give headrace a server of its own"
    if policy.startswith("allkeys-"):
        return fail("eviction", f"{policy}: jobs vanish when memory is full", remedy)
    if policy.startswith("volatile-"):
        return warn(
            "eviction",
            f"{policy}: results, end records and unique keys with a window may vanish when memory is full",
            remedy,
        )
    return ok("eviction", policy or "not known")


def memory_finding(facts: Facts) -> Finding:
    used, limit = number(facts, "used_memory"), number(facts, "maxmemory")
    whose = "maxmemory"
    if not limit:
        limit, whose = number(facts, "total_system_memory"), "the machine's memory (there is no maxmemory)"
    if not used or not limit:
        return warn("memory", "it does not say how much is used", "give this user the right to INFO")
    share = used / limit
    text = f"{spoken_bytes(used)} of {spoken_bytes(limit)} used, {share:.0%} of {whose}"
    remedy = "raise maxmemory, let workers catch up, set queue_limit=, or discard dead letters"
    if share >= GONE:
        return fail("memory", f"{text}: new jobs are refused, or are about to be", remedy)
    return warn("memory", text, remedy) if share >= SHORT else ok("memory", text)


def fragmentation_finding(facts: Facts) -> Finding:
    used, held = number(facts, "used_memory"), number(facts, "used_memory_rss")
    if held - used > max(SPREAD_BYTES, SPREAD * used):
        return warn(
            "fragmentation",
            f"the server holds {spoken_bytes(held)} of the machine's memory for {spoken_bytes(used)} in use",
            "MEMORY PURGE, CONFIG SET activedefrag yes, or restart it at a quiet time",
        )
    return ok("fragmentation", f"{spoken_bytes(held)} held for {spoken_bytes(used)} in use")


def replication_finding(facts: Facts) -> Finding:
    if facts.get("role") == "slave":
        return fail(
            "replication",
            f"this server is a replica of {facts.get('master_host')}:{facts.get('master_port')} and takes no"
            " changes",
            "name the primary in the URL, or redis+sentinel:// to have it found",
        )
    replicas = [_parts(value) for name, value in facts.items() if _is_replica(name)]
    late = [each for each in replicas if each.get("state") != "online" or int(each.get("lag", "0")) > LAG]
    if late:
        texts = ", ".join(_replica_text(each) for each in late)
        return warn(
            "replication",
            f"{len(late)} of {len(replicas)} replicas behind: {texts}",
            "look at the log of the replica and at the network between them",
        )
    if not replicas:
        return ok("replication", "no replica: jobs are as safe as this one server")
    behind = max(number(facts, "master_repl_offset") - int(each.get("offset", "0")) for each in replicas)
    names = f"{len(replicas)} replica{'s' if len(replicas) > 1 else ''} online"
    return ok("replication", f"{names}, at most {spoken_bytes(max(0, behind))} behind")


def cluster_finding(cluster: Facts) -> Finding:
    """The finding from the answer to CLUSTER INFO."""
    served = number(cluster, "cluster_slots_ok")
    if cluster.get("cluster_state") != "ok" or served < SLOTS:
        return fail(
            "cluster",
            f"the cluster is {cluster.get('cluster_state', 'not known')}: {served:,} of {SLOTS:,} slots are"
            " served",
            "start the nodes that are down, or see CLUSTER NODES and redis-cli --cluster fix",
        )
    doubted = number(cluster, "cluster_slots_pfail") + number(cluster, "cluster_slots_fail")
    text = f"{number(cluster, 'cluster_size')} primaries among {number(cluster, 'cluster_known_nodes')} nodes"
    if doubted:
        return warn("cluster", f"{text}; {doubted:,} slots are on nodes that do not answer", "CLUSTER NODES")
    return ok("cluster", text)


def clock_finding(ahead: float) -> Finding:
    """`ahead`: seconds by which the server's clock is ahead of this machine's."""
    way = "ahead of" if ahead > 0 else "behind"
    if abs(ahead) > CLOCK:
        return warn(
            "clock",
            f"the server's clock is {abs(ahead):,.1f} s {way} this machine's: what is due at a given time"
            " runs by the server's",
            "have both follow a time server (NTP)",
        )
    return ok("clock", f"{abs(ahead) * 1000:.0f} ms {way} this machine's")


def latency_finding(times: Sequence[float]) -> Finding:
    """`times`: seconds of each round trip."""
    ordered = sorted(times)
    median, worst = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    text = f"p50 {median:.2f} ms, p99 {worst:.2f} ms over {len(times)} round trips"
    if median > SLOW_MEDIAN or worst > SLOW_WORST:
        return warn("latency", text, "bring the server nearer, or look at SLOWLOG GET and its machine's load")
    return ok("latency", text)


def number(facts: Facts, name: str) -> int:
    text = facts.get(name, "")
    return int(text) if text.isdecimal() else 0


def _online(facts: Facts) -> int:
    return sum(_parts(value).get("state") == "online" for name, value in facts.items() if _is_replica(name))


def _is_replica(name: str) -> bool:
    return name.startswith("slave") and name[5:].isdecimal()


def _parts(value: str) -> dict[str, str]:
    """Read `ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`."""
    return dict(part.split("=", 1) for part in value.split(",") if "=" in part)


def _replica_text(replica: Mapping[str, str]) -> str:
    where = f"{replica.get('ip')}:{replica.get('port')}"
    return f"{where} is {replica.get('state')}, last heard {replica.get('lag')} s ago"
