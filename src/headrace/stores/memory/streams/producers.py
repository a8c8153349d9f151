"""Keeps the last batch of each producer with its answers, to recognise a repeated batch."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from headrace.core.messages.message import PRODUCER_TTL_US, Batch
from headrace.core.records.answers import Answer
from headrace.core.rules.producers import refuse_if_overtaken


class LastBatch(msgspec.Struct, frozen=True):
    number: int
    answers: list[Answer]
    until_us: int


class Producers:
    def __init__(self) -> None:
        self._last: OrderedDict[str, LastBatch] = OrderedDict()  # the longest silent first

    def recall(self, batch: Batch, now_us: int) -> list[Answer] | None:
        """The earlier answers to this batch; None: the batch is new."""
        last = self._last.get(batch.producer)
        if last is None or last.until_us <= now_us:
            return None
        refuse_if_overtaken(batch, last.number)
        return list(last.answers) if last.number == batch.number else None

    def remember(self, batch: Batch, answers: list[Answer], now_us: int) -> None:
        self._last[batch.producer] = LastBatch(batch.number, list(answers), now_us + PRODUCER_TTL_US)
        self._last.move_to_end(batch.producer)

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        while pruned < limit and self._last and next(iter(self._last.values())).until_us <= now_us:
            self._last.popitem(last=False)
            pruned += 1
        return pruned
