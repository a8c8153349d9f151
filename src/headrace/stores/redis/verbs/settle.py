"""Turns settlements into script calls, sorted by queue and kind and limited in size, and answers into
verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, State, encode_state
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    Done,
    Expired,
    Kept,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.messages.outgoing import encode_outgoing
from headrace.core.records.record import JobStatus
from headrace.core.values.bounds import checked_span_us
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import EntryToken, budgets_of, stored_constraints
from headrace.stores.redis.keys import HELD, Lane
from headrace.stores.redis.scripts import BURY, CONCLUDE, FINISH, FORWARDING, LIMITED, RUN_AGAIN, Script
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

from .history import entry_words

#: Limits of one script, so that it ends within a few milliseconds: plain successes, other settlements (each
#: costs the server about 15 µs), and bytes that are written or moved.
SIMPLE, ITEMS, BYTES = 500, 100, 1 << 20

_encode = msgspec.msgpack.Encoder().encode


class SettleStep(msgspec.Struct, frozen=True):
    """One call, and the settlements that it carries, in the order of its arguments."""

    call: ScriptCall
    indices: Sequence[int]
    refusal: Verdict  # the verdict for settlements that the answer names


class SettleRow(msgspec.Struct, frozen=True):
    """One settlement as arguments of a script, and the bytes that the script moves in addition."""

    index: int
    words: tuple[Word, ...]
    moved: int
    outgoing: tuple[bytes, ...] = ()
    record: tuple[Word, ...] = ()

    @property
    def size(self) -> int:
        words = (*self.words, *self.outgoing, *self.record)
        return self.moved + sum(len(word) for word in words if not isinstance(word, int))


class SettleCall(msgspec.Struct):
    """Plain successes of one lane: handed out for the first time, without a unique key."""

    lane: Lane
    kept: bool
    indices: list[int] = []
    entries: list[bytes] = []
    ids: list[str] = []
    end_records: list[Word] = []
    constraints: dict[bytes, int] = {}  # how many have them, of the lane of messages with constraints
    size: int = 0

    @property
    def full(self) -> bool:
        return len(self.ids) >= SIMPLE or self.size >= BYTES

    @property
    def words(self) -> tuple[Word, ...]:
        words = (self.lane, len(self.ids), int(self.kept), *self.entries, *self.ids, *self.end_records)
        if self.lane != HELD:
            return words
        slots = Counter[bytes]()
        for constraints, count in self.constraints.items():
            for budget in budgets_of(constraints):
                slots[budget] += count
        return (*words, len(slots), *(word for pair in slots.items() for word in pair))


class StreamSettlements:
    """The settlements of one queue, gathered by the script that writes them."""

    def __init__(self, queue: StreamScripts) -> None:
        self._queue = queue
        self._sections: dict[tuple[Lane, bool], SettleCall] = {}
        self._full: list[SettleCall] = []
        self._others: dict[Script, list[SettleRow]] = {}
        self._forwarding: dict[Script, list[SettleRow]] = {}

    def add(self, index: int, settlement: Settlement) -> None:
        claim, outcome = settlement.claim, settlement.outcome
        token = cast(EntryToken, claim.token)
        if type(outcome) is Done and token.plain and not settlement.forwards and settlement.record is None:
            section = self._section(token.lane, outcome.kept is not None)
            section.indices.append(index)
            section.entries.append(token.entry)
            section.ids.append(claim.id)
            if token.limited:
                section.constraints[token.constraints] = section.constraints.get(token.constraints, 0) + 1
            if outcome.kept is not None:
                content = _end_record(token.task, outcome.kept, _stored(outcome.state or claim.state))
                section.end_records += (checked_span_us(outcome.kept.ttl_us), content)
                section.size += len(content)
            return
        script, words = _words(claim, token, outcome)
        # The script moves the body of a message that does not end. The end of a message that holds a key
        # moves the next message of that key.
        moves = script in (RUN_AGAIN, BURY) or token.limited or token.unique.startswith(b"k")
        moved = len(claim.body) if moves else 0
        relabels = isinstance(outcome, Released) and outcome.constraints is not None
        script = LIMITED[script] if token.limited or relabels else script
        outgoing = tuple(map(encode_outgoing, settlement.forwards))
        record = () if settlement.record is None else entry_words(settlement.record)
        rows = self._forwarding if outgoing or record else self._others
        rows.setdefault(script, []).append(SettleRow(index, words, moved, outgoing, record))

    def steps(self) -> Iterator[SettleStep]:
        for section in (*self._full, *self._sections.values()):
            script = LIMITED[FINISH] if section.lane == HELD else FINISH
            yield SettleStep(self._queue.call(script, 1, *section.words), section.indices, Verdict.GONE)
        for rows, forwards in ((self._others, False), (self._forwarding, True)):
            for script, items in rows.items():
                for chunk in _chunks(items):
                    yield self._step(script, chunk, forwards=forwards)

    def _step(self, script: Script, chunk: list[SettleRow], *, forwards: bool) -> SettleStep:
        is_success = script in (FINISH, LIMITED[FINISH])
        verdict = Verdict.GONE if is_success else Verdict.LOST
        head: tuple[Word, ...] = (0,) if is_success else ()
        words = [word for item in chunk for word in item.words]
        if forwards:
            outgoing = [(index, content) for index, item in enumerate(chunk) for content in item.outgoing]
            records = [(index, *item.record) for index, item in enumerate(chunk) if item.record]
            words += [*(word for row in records for word in row), len(records)]
            words += [*(word for pair in outgoing for word in pair), len(outgoing)]
            script = FORWARDING[script]
        return SettleStep(self._queue.call(script, *head, *words), [item.index for item in chunk], verdict)

    def _section(self, lane: Lane, kept: bool) -> SettleCall:
        section = self._sections.get((lane, kept))
        if section is not None and section.full:
            self._full.append(section)
            section = None
        if section is None:
            section = self._sections[lane, kept] = SettleCall(lane, kept)
        return section


def steps_of(settlements: Sequence[Settlement], queue_of: Callable[[Any], StreamScripts]) -> list[SettleStep]:
    """The calls that write these settlements."""
    settlings: dict[Any, StreamSettlements] = {}
    settling: StreamSettlements | None = None
    stream = None
    for index, settlement in enumerate(settlements):
        # Most claims of a batch share one stream object.
        if settlement.claim.stream is not stream or settling is None:
            stream = settlement.claim.stream
            settling = settlings.get(stream)
            if settling is None:
                settling = settlings[stream] = StreamSettlements(queue_of(stream))
        settling.add(index, settlement)
    return [step for each in settlings.values() for step in each.steps()]


def verdicts_of(steps: Sequence[SettleStep], answers: Sequence[Any], count: int) -> list[Verdict]:
    verdicts = [Verdict.KEPT] * count
    for step, refused in zip(steps, answers, strict=True):
        for position in refused:
            if position >= 0:
                verdicts[step.indices[position]] = step.refusal
    return verdicts


def constrained_since(steps: Sequence[SettleStep], answers: Sequence[Any]) -> list[int]:
    """The indices of late successes whose message has got constraints since its claim."""
    return [
        step.indices[-1 - position]
        for step, refused in zip(steps, answers, strict=True)
        for position in refused
        if position < 0
    ]


def with_constraints(settlement: Settlement) -> Settlement:
    """The settlement as the script that knows constraints takes it."""
    token = cast(EntryToken, settlement.claim.token)
    token = msgspec.structs.replace(token, limited=True, origin=token.first_place)
    claim = msgspec.structs.replace(settlement.claim, token=token)
    return msgspec.structs.replace(settlement, claim=claim)


def _words(claim: Claim, token: EntryToken, outcome: Any) -> tuple[Script, tuple[Word, ...]]:
    """The script for an outcome, and the arguments that its header names."""
    place: tuple[Word, ...] = (claim.id, token.lane, token.entry)
    state = _stored(claim.state)
    held: tuple[Word, ...] = (*place, token.consumer)
    match outcome:
        case Done():
            kept, state = outcome.kept, _stored(outcome.state or claim.state)
            ttl_us, content = (kept.ttl_us, _end_record(token.task, kept, state)) if kept else (0, b"")
            return FINISH, (*place, token.first_place, token.unique, checked_span_us(ttl_us), content)
        case Retry() | Snoozed() | Released():
            return RUN_AGAIN, (*held, *_again(outcome), encode_state(outcome.state))
        case Dead():
            failure = _encode(outcome.failure)
            return BURY, (*held, encode_state(outcome.state), outcome.reason.value, failure)
        case Cancelled():
            return CONCLUDE, (
                *held,
                token.task,
                token.unique,
                JobStatus.CANCELLED.value,
                outcome.ttl_us,
                _stored(outcome.state or claim.state),
            )
        case Expired():
            ended = (JobStatus.EXPIRED.value, outcome.ttl_us, state)
            return CONCLUDE, (*held, token.task, token.unique, *ended)
        case _:
            raise TypeError(f"{outcome!r} is no outcome")


def _end_record(task: bytes, kept: Kept, state: bytes) -> bytes:
    """The content of the end record of a success, in the form of lua/shared/messages/ending.lua."""
    note, value = kept.note.encode(), kept.value
    head = b"succeeded %d %d %d %d " % (len(task), len(note), len(state), value is not None)
    return head + task + note + state + (value or b"")


def _stored(state: State) -> bytes:
    return b"" if state is FRESH else encode_state(state)


def _again(outcome: Retry | Snoozed | Released) -> tuple[Word, ...]:
    """Where the message goes, after which delay, and whether it was handed back, and not started."""
    returned = 1 + outcome.unstarted if isinstance(outcome, Released) else 0
    if isinstance(outcome, Released) and outcome.constraints is not None:
        return (b"g" + stored_constraints(outcome.constraints), 0, returned)
    if outcome.delay_us <= 0:
        return ("L", 0, returned)
    return ("R" if isinstance(outcome, Retry) else "S", checked_span_us(outcome.delay_us), returned)


def _chunks(items: list[SettleRow]) -> Iterator[list[SettleRow]]:
    chunk: list[SettleRow] = []
    size = 0
    for item in items:
        if chunk and (len(chunk) == ITEMS or size + item.size > BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += item.size
    if chunk:
        yield chunk
