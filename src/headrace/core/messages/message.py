"""A message in a stream: what producers append and stores keep without looking inside.

A job is a message in a queue, an event is a message in a topic. The body is an `Envelope`, encoded once by
the producer and never changed; beside it a store keeps a small `State` that says what went wrong so far.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.runtime.clock import SECOND
from headrace.core.values.bounds import Count, MomentUs, SpanUs

from .constraints import Constraints
from .job_log import LINES_MOST, NO_LOG, JobLog
from .overrides import Overrides

StreamKind = Literal["queue", "topic", "group"]
PriorityName = Literal["high", "normal", "low"]

#: Priorities as stores number them: the lower number is claimed first.
PRIORITIES: Final[dict[PriorityName, int]] = {"high": 0, "normal": 1, "low": 2}
HIGH, NORMAL, LOW = 0, 1, 2

#: The envelope's layout. A worker that meets another version hands the message back, as for an unknown task.
ENVELOPE_VERSION = 1

#: Bytes of a body beside its payload: headers, and the envelope itself.
ENVELOPE_ROOM = 64 * 1024

# `gc=False` on classes that are made for every job: they cannot be part of a cycle, and the collector need
# not visit a million waiting messages.

#: Microseconds for which the end record of an expired message is kept by default.
EXPIRED_TTL_US: Final = 3600 * 1_000_000

#: The most trail entries of a message; older ones are dropped.
TRAIL_LENGTH = 20


#: From this crash on a message is a suspect.
SUSPECT_FROM: Final = 2


#: Between a topic and a group in the name of the group's stream; no name may hold it.
GROUP_MARK: Final = "/"


class Stream(msgspec.Struct, frozen=True, array_like=True):
    """Where messages are kept. Messages of a queue are claimed and removed. Messages of a topic stay in a
    log. Each group draws them from the log into its own stream (`orders/billing`), where they are claimed as
    in a queue."""

    kind: StreamKind
    name: str

    @property
    def topic(self) -> str:
        """The name of the topic, for a topic or a group."""
        return self.name.partition(GROUP_MARK)[0]

    @property
    def group(self) -> str:
        """The name of the group, for a group."""
        return self.name.partition(GROUP_MARK)[2]


def group_stream(topic: str, group: str) -> Stream:
    return Stream("group", f"{topic}{GROUP_MARK}{group}")


#: The prefix of a unique key that a user has given, so that it never equals a key made from arguments.
GIVEN_KEY: Final = "given:"


class UniqueKey(msgspec.Struct, frozen=True):
    """A key that only one message of the stream may hold, and until when.

    `finished`: until the message's end. `started`: until it is claimed. `elapsed`: for `window_us`.
    """

    key: str
    until: Literal["finished", "started", "elapsed"] = "finished"
    window_us: SpanUs = 0


#: What a message does whose unique key is held: nothing (`keep`, and `raise`, which the caller turns into an
#: error), or it replaces the message that holds the key.
OnDuplicate = Literal["keep", "replace", "raise"]


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message to append. Spans count from the moment the store takes it, on the store's clock."""

    id: str
    task: str
    body: bytes
    priority: int = NORMAL
    delay_us: int = 0
    due_us: int = 0  # an absolute time; with a delay the later of the two holds
    lifetime_us: int = 0  # from the moment it could first run until it expires; 0: it never does
    unique: UniqueKey | None = None
    fresh: bool = False  # its id was just made by `new_id`, so no store need look whether it is known
    expired_ttl_us: int = EXPIRED_TTL_US  # of the end record of an expired owner of its unique key
    key: str = ""  # jobs of one key run one at a time, in order; so do events of one key in an ordered group
    child: bool = False  # it runs in a child process, so only a worker with a free one is offered it
    constraints: Constraints | None = None  # its limits and its tenant
    on_duplicate: OnDuplicate = "keep"  # with `replace`, its key is of the kind `started`

    @property
    def plain(self) -> bool:
        """Whether it goes straight to its lane, unless its id is known already."""
        return not (
            self.delay_us
            or self.due_us
            or self.lifetime_us
            or self.key
            or self.unique is not None
            or self.constraints is not None
        )


def are_alike(messages: list[Message]) -> bool:
    """Whether all are fresh and plain, of one task and one priority, and all or none of them child work. Most
    bulk sends are, and stores have a faster path for them."""
    task, priority, child = messages[0].task, messages[0].priority, messages[0].child
    return all(
        [
            message.fresh
            and message.task == task
            and message.priority == priority
            and message.child is child
            and message.plain
            for message in messages
        ]
    )


#: How long the answers to a producer's last batch are remembered, in microseconds.
PRODUCER_TTL_US: Final = 600 * SECOND


class Batch(msgspec.Struct, frozen=True):
    """Messages appended in one step. A store recognises a repeat by `(producer, number)`.

    A producer has one batch in flight for a stream and numbers its batches upwards from 1. `limit` is the
    number of waiting and scheduled messages that the stream may hold; messages beyond it are refused. For a
    topic, see `core/topics/topic.py`.
    """

    stream: Stream
    producer: str
    number: int
    messages: list[Message]
    limit: int | None = None


class TrailEntry(msgspec.Struct, frozen=True, array_like=True):
    """One thing that went wrong with a message, kept for its timeline."""

    at_us: MomentUs
    what: Literal["failed", "timed out", "crashed", "released", "snoozed", "unknown"]
    worker: str
    text: str = ""
    began_us: MomentUs = 0  # when the run began; 0: it is not known, or there was none


class State(msgspec.Struct, frozen=True, array_like=True):
    """What went wrong with a message so far. For a run that goes right nothing is written.

    `failures` are errors of the handler, `crashes` are leases that ran out or processes that died,
    `releases` are hand-backs, which cost nothing.
    """

    failures: Count = 0
    crashes: Count = 0
    releases: Count = 0
    unknown_since_us: MomentUs = 0
    trail: tuple[TrailEntry, ...] = ()
    log: JobLog = NO_LOG  # what its handler logged, if the app keeps that

    @property
    def attempt(self) -> int:
        """The number of the next run: 1 for the first."""
        return self.failures + self.crashes + 1

    @property
    def suspect(self) -> bool:
        """Whether it crashed so often that it may be the cause. A worker does not buffer such a message and
        runs one at a time, so that others do not crash with it. One crash proves nothing: every message that
        a worker was running when it died has one."""
        return self.crashes >= SUSPECT_FROM

    @property
    def begun(self) -> bool:
        """Whether a handler has begun with the message: then it does not expire."""
        return self.attempt > 1 or any(entry.what == "snoozed" or entry.began_us for entry in self.trail)

    def expired(self, expires_us: int, now_us: int) -> bool:
        """Whether a message that waits in this state has expired; 0: it never expires."""
        return 0 < expires_us <= now_us and not self.begun

    def failed(self, entry: TrailEntry) -> State:
        return self._after(entry, failures=self.failures + 1)

    def crashed(self, entry: TrailEntry) -> State:
        return self._after(entry, crashes=self.crashes + 1)

    def released(self, entry: TrailEntry | None = None) -> State:
        return self._after(entry, releases=self.releases + 1)

    def snoozed(self, entry: TrailEntry) -> State:
        return self._after(entry)

    def unknown(self, entry: TrailEntry) -> State:
        since = self.unknown_since_us or entry.at_us
        return self._after(entry, releases=self.releases + 1, unknown_since_us=since)

    def logged(self, log: JobLog, most: int = LINES_MOST) -> State:
        """The state with the log of one more run."""
        return msgspec.structs.replace(self, log=self.log.then(log, most)) if log is not NO_LOG else self

    def _after(self, entry: TrailEntry | None, **counts: int) -> State:
        trail = (*self.trail, entry)[-TRAIL_LENGTH:] if entry else self.trail
        return msgspec.structs.replace(self, trail=trail, **counts)


FRESH = State()


class Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The body of a job: its task and the encoded arguments, with the options given for this call.

    The registry of the worker that runs the job decides everything else.
    """

    version: int
    id: str
    task: str
    enqueued_us: MomentUs
    headers: dict[str, str] | None
    overrides: Overrides | None
    payload: bytes


_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(Envelope)
_state = msgspec.msgpack.Decoder(State)

encode_envelope = _encoder.encode
decode_envelope = _envelope.decode
encode_state = _encoder.encode
decode_state = _state.decode


def readable_state(data: bytes | None) -> State | None:
    """The decoded state; None: it cannot be read. The claim of such a message makes it a dead letter."""
    try:
        return FRESH if data is None else decode_state(data)
    except DECODE_ERRORS:
        return None
