"""Makes every key and channel. No other module makes them.

All keys of a queue share one hash tag, `{namespace:q:queue}`, so that one script may touch them all. The keys
of a topic and all its groups share `{namespace:t:topic}`. Keys marked *job* hold messages or belong to one.
They are gone, or have a time to live, once the messages have ended. The others stay with the stream or the
namespace.

    :s:suspect … :s:low    the five lanes, streams read by one group          stays
    :s:suspect/child …     the five lanes of child work                       stays
    :s:held                the lane of messages with constraints, when they   stays
                           are handed out; its entries have only the ids
    :s:suspect/open …      of each lane, a ticket while lines are open        stays
    :line/<line>           sorted set: id by place, of a line                 job
    :lined                 sorted set: id by time, of all lines               job
    :open/<letter>…        sorted sets: tenants by turn, their open lines     job
    :blocked               hash: line → the limit that it waits for           job
    :parked                sorted set: id by time, of what waits for its key  job
    :parked/<key>          sorted set: id by place, of those of one key       job
    :keys                  hash: order key → its holder, id → its order key   job
    :ids                   hash: id → place and flags                         job
    :msg                   hash: id → message, of what is not in a lane, or   job
                           in `:s:held`
    :due  :retry  :dead    sorted sets: id by due time, or time of death      job
    :cancel                hash: id → how long its end record stays           job
    :progress              hash: id → how far its run has come               job
    :w                     hash: id → channels of waiting processes           job, time to live
    :r:<id>                result or end record of an ended message           job, time to live
    :u:<key>               unique key → the message that holds it             job
    :p:<producer>/<chunk>  last batch with its answers                        job, time to live
    :p:                    the part or the store is sealed: no producer may   stays
                           append
    …/aside                the key of a stream whose content just moves       until it is moved
    :confirmed             written before a confirmation is waited for        time to live
    :outbox                stream: what settlements forward to others         job
    :outbox/batch          the batch of the outbox that is under way          time to live
    :history               sorted set: id by the time of its end, of jobs     stays
                           that have ended
    :history/heads         hash: id → kept until, size, status, task          stays
    :history/contents      hash: id → content                                 stays
    :awaited               consumer that found it empty, not blocking         time to live
                           (cluster)
    :meta                  hash: lease, longer and until (of one that was     stays
                           shortened), paused, run (of the server), patient
                           (until when nothing is reclaimed), looked (when it
                           was last looked for leases that ran out), purged
                           (end records that purges left, since when),
                           layout (of a stream that was split), lanes (in use,
                           besides that of normal priority; letters: lines),
                           held (whether it was paused before the store was
                           sealed), import <move> (how many messages have come
                           from another store, and the place of the next),
                           large (messages that are not small, see
                           lua/shared/messages/queueing.lua), places and turns (numbers
                           of messages and tenants in lines), mended (when
                           holders of order keys were last looked for),
                           promotions (how many there were),
                           scanned (how far `:msg` was looked through),
                           anew (1: it must be, 2: it is looked through to
                           make lines and order keys anew), offered (how far
                           blocked lines were),
                           history (bytes in it)
    :sched                 hash: of each schedule l:<name> last moment,       stays
                           f: last fired, p: paused, d: definition,
                           t: by which timetable

On a cluster, a queue may have a hash tag: then its keys begin with `{namespace:h:tag}:g:`, its name and a
slash, and all queues of the tag share their limits, `{namespace:h:tag}:limits/…`.

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

    {<namespace>:limits}:figures, overrides  hash: limit → what it allows     stays
    {<namespace>:limits}:revision  when figures or overrides changed          stays
    {<namespace>:limits}:… what is counted, see lua/shared/limits/limits.lua. On a   job, or time to live
                           cluster, each queue has its own: `:limits/…`

    <namespace>:streams    set of all streams                                 stays
    {<namespace>:streams}:format  the format of all keys, see FORMAT          stays
    {<namespace>:streams}:seal    where the content was moved, or moves       stays
    {<namespace>:streams}:tags    hash: queue → its hash tag (cluster)        stays
    {<namespace>:streams}:sealed  set of the streams that are sealed for this stays
    <namespace>:traffic:<minute>  hash: what was done and failed              time to live
    <namespace>:turn:<digest of streams>  the turn to look for ended leases   time to live
    <namespace>:workers    hash: consumer → listed until, and its description stays
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from headrace.core.messages.message import Stream, StreamKind

#: Changes when versions on both sides of a change cannot work on the same keys. Each refuses the keys of the
#: other (server/format.py).
FORMAT = "v1"

#: The lane of messages with constraints that are handed out.
HELD: Final = "x"
Lane: TypeAlias = int | Literal["x"]

#: The lanes in the order in which they are claimed; scripts number them from 1.
LANES = ("suspect", "returned", "high", "normal", "low")
CHILD_LANES = (0, 6, 7, 8, 9)
SUSPECTS, RETURNED, NORMAL_LANE = (1, 0), 2, 4
TOP_DOWN, BOTTOM_UP = (3, 4, 5), (5, 4, 3)

#: All lanes, in the order in which a read that finds several takes from them.
IN_ORDER = (1, 0, 2, 6, 3, 7, 4, 8, 5, 9)
EVERY_LANE: Final[tuple[Lane, ...]] = (*IN_ORDER, HELD)

#: The letters of the lanes 0 to 9 that have lines, among the lanes in use (lua/shared/limits/limits.lua).
LINE_LETTERS = "abcdefghij"
_LINES = frozenset(LINE_LETTERS)

#: The consumer group that reads the lanes of every queue and of every group of a topic.
GROUP = "headrace"

_KINDS: dict[str, StreamKind] = {"queue": "queue", "topic": "topic", "group": "group"}


class QueueKeys:
    """The keys of one stream, in the order in which lua/shared/queue.lua and topics/topic.lua name them."""

    def __init__(self, namespace: str, stream: Stream, tag: str = "") -> None:
        self._prefix = _prefix(namespace, stream, tag)
        self.prefix = self._prefix.encode()
        self.lanes = tuple(self._key(f"s:{lane}") for lane in LANES)
        children = tuple(lane + b"/child" for lane in self.lanes)
        self.by_lane: dict[Lane, bytes] = dict(zip(range(1, len(LANES) + 1), self.lanes, strict=True))
        self.by_lane |= zip(CHILD_LANES, children, strict=True)
        #: The tickets of lines, by lane.
        self.tickets = {lane: key + b"/open" for lane, key in self.by_lane.items()}
        self.by_lane["x"] = self._key("s:held")
        self.own_limits = f"{{{namespace}:h:{tag}}}:limits/".encode() if tag else self._key("limits/")
        self.due, self.retry = self._key("due"), self._key("retry")
        self.out_of_lanes = (self.due, self.retry, *map(self._key, ("parked", "lined", "msg")))
        self.meta = self._key("meta")
        self.awaited = self._key("awaited")
        self.outbox = self._key("outbox")
        self.history = self._key("history")
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
        kept = (self.meta, self.end_record_prefix, self._key("u:"), self.producers)
        #: The keys that are set aside when the content moves to another store.
        self.content = tuple(key for key in (*self.all, *children) if key not in kept)
        #: The keys of a queue that do not move: its history, and what holds nothing once its lines are empty.
        self.beside_content: tuple[bytes, ...] = ()
        if stream.kind == "queue":
            self.content += tuple(map(self._key, ("lined", "parked", "keys")))
            of_limits = map(self._key, ("blocked", "limits/figures", "limits/overrides"))
            of_history = (self.history, self._key("history/heads"), self._key("history/contents"))
            self.beside_content = (*self.tickets.values(), self.by_lane["x"], *of_limits, *of_history)
        else:
            topic = TopicKeys(namespace, stream.topic)
            of_group = (self._key("parked"), self._key("keys"), self._key("deferred"))
            self.all += (*of_group[:2], *topic.all, of_group[2])
            self.content += (*of_group, *((topic.log, topic.groups) if stream.kind == "topic" else ()))

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


def _prefix(namespace: str, stream: Stream, tag: str = "") -> str:
    if tag:
        return f"{{{namespace}:h:{tag}}}:g:{stream.name}/"
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
        self.format = f"{{{self.streams}}}:format"  # on the same node of a cluster
        self.seal = f"{{{self.streams}}}:seal"
        self.sealed = f"{{{self.streams}}}:sealed"
        self.tags = f"{{{self.streams}}}:tags"
        self.workers = f"{namespace}:workers"
        self.limits = f"{{{namespace}:limits}}:"
        self.revision = f"{self.limits}revision"
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


def has_lines(lanes: str) -> bool:
    """Whether a queue with these lanes in use has lines."""
    return not lanes.isdigit() and not _LINES.isdisjoint(lanes)
