"""Makes every key and channel. No other module makes them.

All keys of a queue share one hash tag, `{namespace:q:queue}`, so that one script may touch them all. The keys
of a topic and all its groups share `{namespace:t:topic}`. Keys marked *job* hold messages or belong to one.
They are gone, or have a time to live, once the messages have ended. The others stay with the stream or the
namespace.

    :s:suspect … :s:low    the five lanes, streams read by one group          stays
    :s:suspect/child …     the five lanes of child work                       stays
    :ids                   hash: id → place and flags                         job
    :msg                   hash: id → message, of what is not in a lane       job
    :due  :retry  :dead    sorted sets: id by due time, or time of death      job
    :cancel                hash: id → how long its end record stays           job
    :progress              hash: id → how far its run has come               job
    :w                     hash: id → channels of waiting processes           job, time to live
    :r:<id>                result or end record of an ended message           job, time to live
    :u:<key>               unique key → the message that holds it             job
    :p:<producer>/<chunk>  last batch with its answers                        job, time to live
    :p:                    the part is sealed, no producer may append         stays
    :confirmed             written before a confirmation is waited for        time to live
    :awaited               consumer that found it empty, not blocking         time to live
                           (cluster)
    :meta                  hash: lease, longer and until (of one that was     stays
                           shortened), paused, run (of the server), patient
                           (until when nothing is reclaimed), looked (when it
                           was last looked for leases that ran out), purged
                           (end records that purges left, since when),
                           layout (of a stream that was split), lanes (in use,
                           besides that of normal priority), large (messages
                           that are not small, see lua/shared/queueing.lua)
    :sched                 hash: of each schedule l:<name> last moment,       stays
                           f: last fired, p: paused, d: definition,
                           t: by which timetable

A part of a stream that was split is a stream of its own, with its own hash tag: `{namespace:q:emails#1.3}` is
part 3 of generation 1 (core/rules/layout.py).

A topic has these keys (its lanes stay empty) and the ones below. Keys of a group begin with
`{namespace:t:topic}:g:`, its name and a slash, which no name holds: `{headrace:t:orders}:g:billing/s:normal`.

    :log                   stream: the events, under their numbers            stays
    :groups                hash: group → 1, or 0: it was removed              stays
    :meta                  also: last (number), rules, look (when the first   stays
                           event is old enough to go); of a group position,
                           seen, ordered, wanted and unwanted (when a member
                           was seen that wants order, that does not), low
                           and deferring (smallest number and count of
                           deferred keys), again (the position before a
                           reset), clearing (how far the events that a reset
                           draws again were removed)
    :parked                sorted set: id by time, of events that wait for    job
                           their key
    :keys                  hash: key → ids: the holder, and the parked ones   job
    :deferred              hash: key → from which number on its events were   job
                           not drawn, how many, 1 or 0: more can be drawn

    <namespace>:streams    set of all streams                                 stays
    <namespace>:traffic:<minute>  hash: what was done and failed              time to live
    <namespace>:turn:<digest of streams>  the turn to look for ended leases   time to live
    <namespace>:workers    hash: consumer → listed until, and its description stays
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from headrace.core.messages.message import Stream, StreamKind

#: The lanes in the order in which they are claimed; scripts number them from 1.
LANES = ("suspect", "returned", "high", "normal", "low")
CHILD_LANES = (0, 6, 7, 8, 9)
SUSPECTS, RETURNED, NORMAL_LANE = (1, 0), 2, 4
TOP_DOWN, BOTTOM_UP = (3, 4, 5), (5, 4, 3)

#: All lanes, in the order in which a read that finds several takes from them.
IN_ORDER = (1, 0, 2, 6, 3, 7, 4, 8, 5, 9)

#: The consumer group that reads the lanes of every queue and of every group of a topic.
GROUP = "headrace"

_KINDS: dict[str, StreamKind] = {"queue": "queue", "topic": "topic", "group": "group"}

_PERMANENT = re.compile(
    r"\{[^}]*\}:(g:[^/]+/)?(s:(suspect|returned|high|normal|low)(/child)?|meta|sched|p:)"
    r"|\{[^}]*\}:(log|groups)|[^{}]+:(streams|workers)"
)


class QueueKeys:
    """The keys of one stream, in the order in which scripts name them (lua/shared/queue.lua, topic.lua)."""

    def __init__(self, namespace: str, stream: Stream) -> None:
        self._prefix = _prefix(namespace, stream)
        self.lanes = tuple(self._key(f"s:{lane}") for lane in LANES)
        children = [lane + b"/child" for lane in self.lanes]
        self.by_lane = dict(zip(range(1, len(LANES) + 1), self.lanes, strict=True))
        self.by_lane |= zip(CHILD_LANES, children, strict=True)
        self.meta = self._key("meta")
        self.awaited = self._key("awaited")
        self.end_record_prefix = self._key("r:")
        self.confirmed = self._key("confirmed")
        self.ids = self._key("ids")
        self.producers = self._key("p:")
        self.all = (
            *self.lanes,
            self.ids,
            self._key("msg"),
            self._key("due"),
            self._key("retry"),
            self._key("dead"),
            self._key("cancel"),
            self._key("w"),
            self.meta,
            self.end_record_prefix,
            self._key("u:"),
            self.producers,
            self._key("progress"),
            self._key("sched"),
        )
        if stream.kind != "queue":
            topic = TopicKeys(namespace, stream.topic)
            self.all += (self._key("parked"), self._key("keys"), *topic.all, self._key("deferred"))

    def _key(self, name: str) -> bytes:
        return f"{self._prefix}{name}".encode()


class TopicKeys:
    """The keys that a topic shares with its groups."""

    def __init__(self, namespace: str, topic: str) -> None:
        prefix = _prefix(namespace, Stream("topic", topic))
        self.log = f"{prefix}log".encode()
        self.meta = f"{prefix}meta".encode()
        self.groups = f"{prefix}groups".encode()
        self.all = (self.log, self.groups, self.meta, f"{prefix}g:".encode())


def _prefix(namespace: str, stream: Stream) -> str:
    match stream.kind:
        case "queue":
            return f"{{{namespace}:q:{stream.name}}}:"
        case "topic":
            return f"{{{namespace}:t:{stream.name}}}:"
        case "group":
            return f"{{{namespace}:t:{stream.topic}}}:g:{stream.group}/"


class NamespaceKeys:
    """Keys and channels that belong to no queue."""

    def __init__(self, namespace: str, database: int = 0) -> None:
        self.streams = f"{namespace}:streams"
        self.workers = f"{namespace}:workers"
        # Channels are common to all databases of a server, keys are not.
        self.notices = f"{namespace}:notices:{database}" if database else f"{namespace}:notices"
        self._namespace = namespace

    def traffic(self, minute: int) -> str:
        """The hash with the counts of one minute."""
        return f"{self._namespace}:traffic:{minute}"

    def turn(self, streams: Iterable[Stream]) -> str:
        """The key of the worker whose turn it is to look for leases that ran out in these streams."""
        labels = " ".join(sorted(map(label_of, streams)))
        return f"{self._namespace}:turn:{hashlib.sha1(labels.encode(), usedforsecurity=False).hexdigest()}"

    def waiter(self, nonce: str) -> str:
        """The channel of one process that waits for messages to end."""
        return f"{self._namespace}:waiter:{nonce}"


def label_of(stream: Stream) -> str:
    """The name of a stream in announcements and in the set of all streams."""
    return f"{stream.kind}:{stream.name}"


def stream_of(label: str) -> Stream:
    kind, _, name = label.partition(":")
    return Stream(_KINDS.get(kind, "queue"), name)


def is_permanent(key: str) -> bool:
    """Whether a key may stay, without a time to live, when all messages have ended."""
    return _PERMANENT.fullmatch(key) is not None
