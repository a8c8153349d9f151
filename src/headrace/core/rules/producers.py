"""The rule of producers: their batches are numbered upwards."""

from __future__ import annotations

from typing import Final

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Batch

#: The beginning of a schedule's name as a producer.
SCHEDULE: Final = "schedule:"

#: The beginning of the name under which relays append what was in an outbox of the store.
OUTBOX: Final = "outbox:"


def refuse_if_overtaken(batch: Batch, last: int) -> None:
    """Raise when the last batch of the same producer has a larger number. Schedules number their batches by
    the moment, which is earlier after the clock was set back."""
    if last > batch.number and not batch.producer.startswith(SCHEDULE):
        raise BackendUnavailable(
            f"the store has taken a later batch of the same producer than number {batch.number} for "
            f"{batch.stream.name!r}: this one was overtaken and is not stored"
        )
