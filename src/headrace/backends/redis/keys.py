"""Every key and channel, made here and nowhere else.

All keys of a queue share one hash tag, `{namespace:q:queue}`, so that one script may touch them all. Those
marked *job* hold messages or belong to one: they are gone, or have a time to live, once the queue's messages
are over. The others stay with the queue or the namespace.

    :s:suspect … :s:low    the five lanes, streams read by one group          stays
    :ids                   hash: id → place and flags                         job
    :msg                   hash: id → message, of what is not in a lane       job
    :due  :retry  :dead    sorted sets: id by due time, or time of death      job
    :cancel                hash: id → how long its mark stays                 job
    :progress              hash: id → how far its run has come               job
    :w                     hash: id → channels of those who wait              job, time to live
    :r:<id>                result or mark of an ended message                 job, time to live
    :u:<key>               unique key → who holds it                          job
    :p:<producer>/<chunk>  last batch with its answers                        job, time to live
    :meta                  hash: lease, longer and until (of one that was     stays
                           shortened), paused, run (of the server), patient
    :sched                 hash: of each schedule l:<name> last moment,       stays
                           f: last fired, p: paused, d: definition

    <namespace>:streams    set of all streams                                 stays
    <namespace>:workers    hash: consumer → until when, and what it says      stays
"""

from __future__ import annotations

import re

from headrace.core.errors import ConfigurationError
from headrace.core.message import Stream

#: The lanes in the order in which they are claimed; scripts number them from 1.
LANES = ("suspect", "returned", "high", "normal", "low")
SUSPECT, RETURNED = 1, 2
TOP_DOWN, BOTTOM_UP = (3, 4, 5), (5, 4, 3)

#: The group of every queue.
GROUP = "headrace"

_PERMANENT = re.compile(
    r"\{[^}]*\}:(s:(suspect|returned|high|normal|low)|meta|sched)|[^{}]+:(streams|workers)"
)


class QueueKeys:
    """The keys of one queue, in the order in which scripts name them (lua/shared/queue.lua)."""

    def __init__(self, namespace: str, stream: Stream) -> None:
        if stream.kind != "queue":
            raise ConfigurationError(f"{stream.kind} {stream.name!r}: there are only queues on Redis so far")
        self._tag = f"{{{namespace}:q:{stream.name}}}"
        self.lanes = tuple(self._key(f"s:{lane}") for lane in LANES)
        self.meta = self._key("meta")
        self.mark_prefix = self._key("r:")
        self.all = (
            *self.lanes,
            self._key("ids"),
            self._key("msg"),
            self._key("due"),
            self._key("retry"),
            self._key("dead"),
            self._key("cancel"),
            self._key("w"),
            self.meta,
            self.mark_prefix,
            self._key("u:"),
            self._key("p:"),
            self._key("progress"),
            self._key("sched"),
        )

    def _key(self, name: str) -> bytes:
        return f"{self._tag}:{name}".encode()


class NamespaceKeys:
    """Keys and channels that belong to no queue."""

    def __init__(self, namespace: str) -> None:
        self.streams = f"{namespace}:streams"
        self.workers = f"{namespace}:workers"
        self.orders = f"{namespace}:orders"
        self._namespace = namespace

    def waiter(self, nonce: str) -> str:
        """The channel of one process that waits for messages to end."""
        return f"{self._namespace}:waiter:{nonce}"


def label_of(stream: Stream) -> str:
    """A stream in announcements and in the set of all streams."""
    return f"{stream.kind}:{stream.name}"


def stream_of(label: str) -> Stream:
    kind, _, name = label.partition(":")
    return Stream("topic" if kind == "topic" else "queue", name)


def is_permanent(key: str) -> bool:
    """Whether a key may be left, without a time to live, when all messages are over."""
    return _PERMANENT.fullmatch(key) is not None
