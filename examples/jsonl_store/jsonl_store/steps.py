"""The steps that change a store. A line of the journal is one step, with the time at which it was made.

A step is a value with all that its outcome depends on. `apply` makes it, in the process that writes the line
and in every process that reads it, and comes to the same result in all of them.
"""

from __future__ import annotations

from typing import Any, Generic, TypedDict, TypeVar, cast

import msgspec

from headrace.store import (
    Answer,
    Batch,
    CancelAnswer,
    Cancelled,
    Claim,
    Dead,
    Done,
    Expired,
    JobLog,
    JobStatus,
    KeptTopics,
    Outcome,
    OutgoingBatch,
    Promoted,
    Reclaimed,
    Refusal,
    Released,
    Renewal,
    ReplayAnswer,
    Report,
    Retry,
    ScheduleSwap,
    Settlement,
    Snoozed,
    Start,
    Stream,
    Swapped,
    TopicRules,
    TrafficCount,
    Verdict,
    WorkerInfo,
    encode_outgoing,
)

from .outbox import OutboxState
from .state import ClaimLimits, StoreState

T = TypeVar("T")


class Step(msgspec.Struct, Generic[T], frozen=True, tag_field="step", tag=True):
    def apply(self, state: StoreState, now_us: int) -> T:
        raise NotImplementedError

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        """Whether it would change nothing. Then it leaves no line."""
        return False


class Held(msgspec.Struct, frozen=True):
    """What a step needs of a claim."""

    stream: Stream
    id: str
    token: int

    @classmethod
    def by(cls, claim: Claim) -> Held:
        assert isinstance(claim.token, int)
        return cls(claim.stream, claim.id, claim.token)


class OutcomeByKind(TypedDict, total=False):
    """One outcome, under the name of its kind: outcomes do not say in JSON what they are."""

    done: Done
    retry: Retry
    snoozed: Snoozed
    released: Released
    dead: Dead
    cancelled: Cancelled
    expired: Expired


class Settled(msgspec.Struct, frozen=True):
    """A settlement."""

    held: Held
    by_kind: OutcomeByKind
    forwards: list[bytes] = []

    @classmethod
    def by(cls, settlement: Settlement) -> Settled:
        outcome = settlement.outcome
        by_kind = cast(OutcomeByKind, {type(outcome).__name__.lower(): outcome})
        return cls(Held.by(settlement.claim), by_kind, list(map(encode_outgoing, settlement.forwards)))

    @property
    def outcome(self) -> Outcome:
        (outcome,) = self.by_kind.values()
        return cast(Outcome, outcome)


class Reported(msgspec.Struct, frozen=True):
    held: Held
    fraction: float | None
    text: str
    log: JobLog

    @classmethod
    def by(cls, report: Report) -> Reported:
        return cls(Held.by(report.claim), report.fraction, report.text, report.log)


# --- the path of a message ----------------------------------------------------------------------------------


class DeclareStream(Step[int | None], frozen=True):
    stream: Stream
    lease_us: int

    def apply(self, state: StoreState, now_us: int) -> int | None:
        return state.declare(self.stream, self.lease_us, now_us)


class RemoveStream(Step[bool], frozen=True):
    stream: Stream

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.remove(self.stream)


class Append(Step[list[Answer]], frozen=True):
    batch: Batch

    def apply(self, state: StoreState, now_us: int) -> list[Answer]:
        return list(state.make(self.batch.stream).append(self.batch, now_us))


class ClaimMessages(Step[list[Claim]], frozen=True):
    streams: list[Stream]
    consumer: str
    limits: ClaimLimits

    def apply(self, state: StoreState, now_us: int) -> list[Claim]:
        return state.claim(self.streams, self.limits, self.consumer, now_us)

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        return not state.is_claimable(self.streams, self.limits)


class Settle(Step[list[Verdict]], frozen=True):
    settled: list[Settled]

    def apply(self, state: StoreState, now_us: int) -> list[Verdict]:
        return [self._settle(each, state, now_us) for each in self.settled]

    def _settle(self, settled: Settled, state: StoreState, now_us: int) -> Verdict:
        held = settled.held
        verdict = state.find(held.stream).settle(held.id, held.token, settled.outcome, now_us)
        if settled.forwards and verdict is Verdict.KEPT:
            outbox = state.outboxes.setdefault(held.stream, OutboxState(held.stream))
            outbox.entries += [(now_us, content) for content in settled.forwards]
        return verdict


class ReportProgress(Step[None], frozen=True):
    reports: list[Reported]

    def apply(self, state: StoreState, now_us: int) -> None:
        for each in self.reports:
            stream = state.find(each.held.stream)
            stream.report(each.held.token, each.fraction, each.text, each.log, now_us)


class Renew(Step[list[Renewal]], frozen=True):
    claims: list[Held]
    after_outage: bool

    def apply(self, state: StoreState, now_us: int) -> list[Renewal]:
        if self.after_outage:
            for stream in {held.stream for held in self.claims}:
                state.make(stream).restart_leases(now_us)
        return [state.find(held.stream).renew(held.token, now_us) for held in self.claims]


class TakeOutgoing(Step[list[OutgoingBatch]], frozen=True):
    streams: list[Stream]
    relay: str
    limit: int
    hold_us: int
    epochs: list[str]  # one for each stream

    def apply(self, state: StoreState, now_us: int) -> list[OutgoingBatch]:
        epochs = dict(zip(self.streams, self.epochs, strict=True))
        return [
            outbox.take(self.relay, self.limit, self.hold_us, epochs[outbox.stream], now_us)
            for outbox in self._free(state, now_us)
        ]

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        return not self._free(state, now_us)

    def _free(self, state: StoreState, now_us: int) -> list[OutboxState]:
        outboxes = [state.outboxes[stream] for stream in self.streams if stream in state.outboxes]
        return [outbox for outbox in outboxes if outbox.is_free(self.relay, self.hold_us, now_us)]


class HandOn(Step[None], frozen=True):
    stream: Stream
    producer: str
    number: int
    kept: list[int]

    def apply(self, state: StoreState, now_us: int) -> None:
        if self.stream in state.outboxes:
            state.outboxes[self.stream].hand_on(self.producer, self.number, self.kept)


class Bury(Step[None], frozen=True):
    stream: Stream
    refusals: list[Refusal]

    def apply(self, state: StoreState, now_us: int) -> None:
        stream = state.make(self.stream)
        for each in self.refusals:
            stream.bury(each.message, each.reason, each.failure, now_us)


# --- upkeep -------------------------------------------------------------------------------------------------


class Reclaim(Step[Reclaimed], frozen=True):
    streams: list[Stream]
    limit: int
    restart: bool
    crash_limits: list[tuple[Stream, int]] = []

    def apply(self, state: StoreState, now_us: int) -> Reclaimed:
        if self.restart:
            for stream in self.streams:
                state.make(stream).restart_leases(now_us)
        return state.reclaim(self.streams, self.limit, now_us, dict(self.crash_limits))

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        return not self.restart and not state.needs_reclaim(self.streams, now_us)


class Promote(Step[Promoted], frozen=True):
    streams: list[Stream]
    limit: int

    def apply(self, state: StoreState, now_us: int) -> Promoted:
        return state.promote(self.streams, self.limit, now_us)

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        due = state.next_due(self.streams)
        return due is None or due[0] > now_us


class Prune(Step[int], frozen=True):
    limit: int

    def apply(self, state: StoreState, now_us: int) -> int:
        return state.prune(self.limit, now_us)

    def is_idle(self, state: StoreState, now_us: int) -> bool:
        return not state.needs_prune(now_us)


class Beat(Step[None], frozen=True):
    worker: WorkerInfo

    def apply(self, state: StoreState, now_us: int) -> None:
        state.beat(self.worker, now_us)


class Leave(Step[None], frozen=True):
    consumer: str

    def apply(self, state: StoreState, now_us: int) -> None:
        state.workers.pop(self.consumer, None)


class CountTraffic(Step[None], frozen=True):
    tallies: list[TrafficCount]

    def apply(self, state: StoreState, now_us: int) -> None:
        state.count_traffic(self.tallies, now_us)


# --- schedules and topics -----------------------------------------------------------------------------------


class SwapSchedule(Step[Swapped], frozen=True):
    swap: ScheduleSwap

    def apply(self, state: StoreState, now_us: int) -> Swapped:
        return state.swap_schedule(self.swap, now_us)


class DeclareTopic(Step[None], frozen=True):
    topic: Stream
    rules: TopicRules

    def apply(self, state: StoreState, now_us: int) -> None:
        topic = state.topic(self.topic)
        topic.established, topic.rules = True, self.rules


class Join(Step[bool], frozen=True):
    group: Stream
    start: Start
    ordered: bool

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.join(self.group, self.start, ordered=self.ordered, now_us=now_us)


class Reset(Step[bool], frozen=True):
    group: Stream
    start: Start

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.group(self.group).reset(self.start, now_us)


class KeepTopics(Step[KeptTopics], frozen=True):
    streams: list[Stream]
    wants_order: dict[str, bool]
    limit: int

    def apply(self, state: StoreState, now_us: int) -> KeptTopics:
        return state.keep_topics(self.streams, self.wants_order, self.limit, now_us)


# --- steering -----------------------------------------------------------------------------------------------


class Pause(Step[None], frozen=True):
    stream: Stream
    paused: bool

    def apply(self, state: StoreState, now_us: int) -> None:
        state.make(self.stream).pause(paused=self.paused)


class Cancel(Step[CancelAnswer], frozen=True):
    stream: Stream
    id: str
    ttl_us: int

    def apply(self, state: StoreState, now_us: int) -> CancelAnswer:
        return state.find(self.stream).cancel(self.id, self.ttl_us, now_us)


class Purge(Step[int], frozen=True):
    stream: Stream
    ttl_us: int
    limit: int
    end_records: int

    def apply(self, state: StoreState, now_us: int) -> int:
        return state.find(self.stream).purge(self.ttl_us, self.limit, self.end_records, now_us)


class Replay(Step[list[ReplayAnswer]], frozen=True):
    stream: Stream
    ids: list[str]

    def apply(self, state: StoreState, now_us: int) -> list[ReplayAnswer]:
        stream = state.find(self.stream)
        return [stream.replay(id, now_us) for id in self.ids]


class Discard(Step[int], frozen=True):
    stream: Stream
    ids: list[str]

    def apply(self, state: StoreState, now_us: int) -> int:
        stream = state.find(self.stream)
        return sum(stream.discard(id) for id in self.ids)


class Clean(Step[int], frozen=True):
    stream: Stream
    ids: list[str]
    status: JobStatus
    ttl_us: int

    def apply(self, state: StoreState, now_us: int) -> int:
        stream = state.find(self.stream)
        return sum(stream.clean(id, self.status, self.ttl_us, now_us) for id in self.ids)


class ReleaseKey(Step[bool], frozen=True):
    stream: Stream
    key: str

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.find(self.stream).release_key(self.key, now_us)


class RunNow(Step[bool], frozen=True):
    stream: Stream
    id: str

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.find(self.stream).run_now(self.id, now_us)


class Rewrite(Step[bool], frozen=True):
    stream: Stream
    id: str
    body: bytes

    def apply(self, state: StoreState, now_us: int) -> bool:
        return state.find(self.stream).rewrite(self.id, self.body)


# --- as lines -----------------------------------------------------------------------------------------------

AnyStep = (
    (DeclareStream | RemoveStream | Append | ClaimMessages | Settle | ReportProgress | Renew)
    | (TakeOutgoing | HandOn | Bury)
    | (Reclaim | Promote | Prune | Beat | Leave | CountTraffic)
    | (SwapSchedule | DeclareTopic | Join | Reset | KeepTopics)
    | (Pause | Cancel | Purge | Replay | Discard | Clean | ReleaseKey | RunNow | Rewrite)
)


class Line(msgspec.Struct, frozen=True):
    """A step and the time on the store's clock at which it was made."""

    at_us: int
    change: AnyStep


_decoder = msgspec.json.Decoder(Line)


def encode_step(at_us: int, step: Step[Any]) -> bytes:
    return msgspec.json.encode({"at_us": at_us, "change": step})


def decode_line(line: bytes) -> Line:
    return _decoder.decode(line)
