"""How a claim is settled: a closed set of values, decided by the executor, written by a store."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .claim import Claim
from .message import FRESH, State


class DeadReason(StrEnum):
    """Why a message ended in the dead letters."""

    EXHAUSTED = "exhausted"  # it failed and its retries are spent
    UNRECOVERABLE = "unrecoverable"  # its handler said that trying again is useless
    CRASHED = "crashed"  # it took its worker down too often
    INVALID = "invalid"  # the arguments do not fit the task
    UNDECODABLE = "undecodable"  # the bytes are no message
    OVERSIZED = "oversized"  # larger than this worker accepts
    UNKNOWN_TASK = "unknown_task"  # nobody knew its name for an hour
    REFUSED = "refused"  # the store would not write how it ended
    UNKNOWN_VERSION = "unknown_version"  # nobody knew its envelope's version for an hour


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error as text, cut to a bounded length. Exceptions never travel as objects."""

    error_type: str
    error: str
    traceback: str = ""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A result to keep for `ttl_us`: its bytes, or why there are none."""

    value: bytes | None
    ttl_us: int
    note: str = ""


class Done(msgspec.Struct, frozen=True, gc=False):
    """It succeeded. With nothing kept, nothing of it remains. `state`: what its mark says of its life; None:
    as it stands there."""

    kept: Kept | None = None
    state: State | None = None


class Retry(msgspec.Struct, frozen=True):
    """It failed or crashed and is to run again after a delay."""

    state: State
    delay_us: int


class Snoozed(msgspec.Struct, frozen=True):
    """It asked to run again later; no attempt is spent."""

    state: State
    delay_us: int


class Released(msgspec.Struct, frozen=True):
    """It is handed back: at once and before everything else, or after a delay."""

    state: State = FRESH
    delay_us: int = 0


class Dead(msgspec.Struct, frozen=True):
    """It goes to the dead letters, with its bytes and the reason."""

    state: State
    reason: DeadReason
    failure: Failure


class Cancelled(msgspec.Struct, frozen=True):
    """It was cancelled; a mark says so for `ttl_us`, with a `state` as that of a success."""

    ttl_us: int
    state: State | None = None


class Expired(msgspec.Struct, frozen=True):
    """It was not started in time; a mark says so for `ttl_us`."""

    ttl_us: int


Outcome = Done | Retry | Snoozed | Released | Dead | Cancelled | Expired

DONE = Done()


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """One claim and how it ended."""

    claim: Claim
    outcome: Outcome


class Verdict(StrEnum):
    """What the store says to a settlement."""

    KEPT = "kept"  # written
    GONE = "gone"  # a success, but the message is already finished, retrying or dead: nothing was written
    LOST = "lost"  # someone else holds it by now, or it ended: nothing was written
