"""Sends batches to parts. No message is stored twice or lost, whatever changes between two tries.

A message is sent to a part under the number of its batch. Until there is an answer, it is repeated to that
part and to no other: a part answers a repeat even when it is sealed. Only messages that the part answers as
moved are sent elsewhere, and only after the whole batch is answered. They go to a part of a later generation,
which therefore gets this number once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headrace.core.errors import BackendUnavailable, Moved, NotConfirmed, after_a_part
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.answers import Answer, Wanted
from headrace.core.records.record import JobStatus, Record
from headrace.core.store import Store

from .layouts import KnownLayouts
from .routing import Plan, part_in, spread
from .splitting import Splitting

#: The limit for remembered batches that were sent to a whole stream: the latest of each producer, as long as
#: it may be repeated.
UNANSWERED_MOST = 10_000


class SendState:
    """A batch, the answers so far, and the messages still to send, by part."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.answers: list[Answer | None] = [None] * len(batch.messages)
        self.todo: dict[Stream, list[int]] = {}
        self.generation = 0
        #: Waiting messages of older generations that messages of the batch replace, by index.
        self.older: dict[int, Record] = {}
        self.undurable: NotConfirmed | None = None

    @property
    def is_partly_answered(self) -> bool:
        return any(answer is not None for answer in self.answers)

    @property
    def unanswered(self) -> list[int]:
        return [index for index, answer in enumerate(self.answers) if answer is None]

    def message(self, index: int) -> Message:
        """A message of the batch. One that replaces a message of an older generation gets its id."""
        message, older = self.batch.messages[index], self.older.get(index)
        return message if older is None else replace(message, id=older.id, fresh=False)

    def answered(self, part: Stream, answers: Sequence[Answer | None]) -> None:
        for index, answer in zip(self.todo.pop(part), answers, strict=True):
            self.answers[index] = answer


class Sender:
    """Sends batches. It calls `ask_again`, which reads a layout again in the background, when the store works
    again after an outage: the store may have lost the last change."""

    def __init__(
        self,
        store: Store,
        layouts: KnownLayouts,
        splitting: Splitting,
        ask_again: Callable[[Stream], None],
    ) -> None:
        self._store = store
        self._layouts = layouts
        self._splitting = splitting
        self._ask_again = ask_again
        #: Batches without an answer. When a batch with the same number comes again, it goes the same way.
        self._pending: dict[tuple[Stream, str], SendState] = {}
        #: The numbers of batches that were sent to a whole stream.
        self._sent_to_whole: dict[tuple[Stream, str], int] = {}

    async def append(self, batch: Batch) -> list[Answer]:
        line = (batch.stream, batch.producer)
        sending = self._pending.get(line)
        if sending is None or sending.batch.number != batch.number:
            was_whole = self._sent_to_whole.pop(line, 0) == batch.number
            sending = _to_one(batch) if was_whole else await self._planned(batch)
        return await self._send(sending)

    async def take_over(self, batch: Batch, moved: Moved) -> list[Answer]:
        """Send the batch to parts: the stream was whole when the batch was sent, and is now sealed."""
        return await self._send(_partly_answered(batch, moved))

    def note_unanswered(self, batch: Batch) -> None:
        """Remember a batch that was sent to a whole stream. The stream may be split when it comes again."""
        self._sent_to_whole[batch.stream, batch.producer] = batch.number
        if len(self._sent_to_whole) > UNANSWERED_MOST:
            del self._sent_to_whole[next(iter(self._sent_to_whole))]

    async def _planned(self, batch: Batch) -> SendState:
        plan = await self._layouts.plan_for_append(batch.stream)
        if plan is None:
            return _to_one(batch)
        sending = SendState(batch)
        await self._route(sending, plan)
        return sending

    async def _send(self, sending: SendState) -> list[Answer]:
        batch = sending.batch
        try:
            await self._carry_out(sending)
            while sending.unanswered:
                await self._route(sending, await self._newer_plan(sending))
                await self._carry_out(sending)
            await self._remove_older(sending)
        except BaseException as error:
            self._remember(sending)
            if isinstance(error, BackendUnavailable) and sending.is_partly_answered:
                error.uncertain = True
            raise
        if self._pending.pop((batch.stream, batch.producer), None) is not None:
            self._ask_again(batch.stream)
        answers = [answer for answer in sending.answers if answer is not None]
        if sending.undurable is not None:
            raise NotConfirmed(str(sending.undurable), answers=answers)
        return answers

    def _remember(self, sending: SendState) -> None:
        self._pending[sending.batch.stream, sending.batch.producer] = sending

    # --- one round ---------------------------------------------------------------------------------------

    async def _carry_out(self, sending: SendState) -> None:
        """Send all waiting messages, and wait for every answer. Only then messages may go to other parts."""
        parts = list(sending.todo)
        if len(parts) == 1:
            await self._carry_to(sending, parts[0])
            return
        outcomes = await asyncio.gather(
            *(self._carry_to(sending, part) for part in parts), return_exceptions=True
        )
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        doubt = any(isinstance(each, BackendUnavailable) and each.uncertain for each in failed)
        with after_a_part(doubt):
            for error in failed:
                raise error

    async def _carry_to(self, sending: SendState, part: Stream) -> None:
        batch, indices = sending.batch, sending.todo[part]
        messages = [sending.message(index) for index in indices]
        try:
            answers: Sequence[Answer | None] = await self._store.append(
                Batch(part, batch.producer, batch.number, messages, batch.limit)
            )
        except Moved as moved:
            sending.undurable, answers = moved.undurable or sending.undurable, moved.answers
        except NotConfirmed as error:
            sending.undurable, answers = error, error.answers
        sending.answered(part, answers)

    async def _newer_plan(self, sending: SendState) -> Plan:
        """The layout after the sealed one. If there is none yet, it is made now."""
        stream = sending.batch.stream
        layout = await self._layouts.refresh(stream)
        if layout.current.number == sending.generation:
            layout = await self._splitting.finish_or_repair(stream, layout)
        plan = await self._layouts.plan(stream)
        if plan is None or layout.current.number <= sending.generation:
            raise BackendUnavailable(
                f"{stream.name!r} is sealed, and the store has no layout with its new parts: a part of the"
                " store was emptied",
                transient=True,
            )
        return plan

    # --- where to ----------------------------------------------------------------------------------------

    async def _route(self, sending: SendState, plan: Plan) -> None:
        """Find a part for each message without an answer."""
        sending.generation = plan.layout.current.number
        await self._leave_out_duplicates(sending, plan)
        messages = sending.batch.messages
        sending.todo = spread(plan.stream, plan.layout.current, messages, sending.unanswered)

    async def _leave_out_duplicates(self, sending: SendState, plan: Plan) -> None:
        """Answer messages that an older generation already has. An older generation accepts nothing new, so a
        message that is not there now never will be."""
        messages = sending.batch.messages
        asking: list[tuple[Stream, list[int]]] = []
        known = [index for index in sending.unanswered if messages[index].unique or not messages[index].fresh]
        if known:
            for generation in plan.layout.generations[:-1]:
                asking += spread(plan.stream, generation, messages, known).items()
        found = await asyncio.gather(
            *(
                self._store.holders(part, [Wanted.by(messages[index]) for index in some])
                for part, some in asking
            )
        )
        for (part, some), holders in zip(asking, found, strict=True):
            for index, holder in zip(some, holders, strict=True):
                if holder is None:
                    continue
                if messages[index].on_duplicate == "replace" and holder != messages[index].id:
                    await self._replace_older(sending, index, await self._store.get(part, holder), plan)
                else:
                    sending.answers[index] = Answer(holder, "duplicate")

    async def _replace_older(self, sending: SendState, index: int, record: Record | None, plan: Plan) -> None:
        """A message of an older generation that waits is replaced by one with its id in the current one. When
        it runs or has ended, the new message is one of its own."""
        if record is None or record.status is JobStatus.RUNNING or record.status.over:
            return
        wanted = Wanted.by(sending.batch.messages[index])
        part = part_in(plan.stream, plan.layout.current, wanted.key)
        [owner] = await self._store.holders(part, [Wanted(key=wanted.key)])
        if owner is None:
            sending.older[index] = record
        else:  # an earlier call has replaced it, and its process ended before the next step
            await self._store.clean(record.stream, [record.id], status=record.status, ttl_us=0)

    async def _remove_older(self, sending: SendState) -> None:
        """Only after the new messages are stored, so that a crash loses none."""
        for index, record in sending.older.items():
            answer = sending.answers[index]
            if answer is not None and answer.id == record.id and answer.verdict != "full":
                await self._store.clean(record.stream, [record.id], status=record.status, ttl_us=0)
                sending.answers[index] = Answer(record.id, "replaced")


def _to_one(batch: Batch) -> SendState:
    """A batch of which all messages go to the stream itself."""
    sending = SendState(batch)
    sending.todo[batch.stream] = list(range(len(batch.messages)))
    return sending


def _partly_answered(batch: Batch, moved: Moved) -> SendState:
    sending = SendState(batch)
    sending.answers, sending.undurable = list(moved.answers), moved.undurable
    return sending
