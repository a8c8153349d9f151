"""The outcomes that a worker can write, for tests that hold for several of them."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Cancelled, Done, Expired, Outcome, Released, Snoozed
from headrace.core.runtime.clock import microseconds

from .stand import HOUR_US, dead, kept, retry

#: Every outcome but success.
FENCED: dict[str, Outcome] = {
    "retry": retry(),
    "snoozed": Snoozed(FRESH, microseconds(10)),
    "released": Released(FRESH),
    "released with a delay": Released(FRESH, microseconds(10)),
    "dead": dead(),
    "cancelled": Cancelled(HOUR_US),
    "expired": Expired(HOUR_US),
}
every_fenced_outcome = pytest.mark.parametrize("outcome", FENCED.values(), ids=FENCED)
EVERY = {"done": Done(), "done and kept": kept(b"42"), **FENCED}
every_outcome = pytest.mark.parametrize("outcome", EVERY.values(), ids=EVERY)
