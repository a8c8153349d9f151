"""The outcomes of a claim: a closed set of values. The executor decides one and a store writes it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headrace.core.history.entry import HistoryEntry

from .claim import Claim
from .constraints import Constraints
from .message import FRESH, State
from .outgoing import Outgoing


class DeadReason(StrEnum):
    """Why a job or an event ended in the dead letters.

    - `exhausted`: it failed, and its retries are spent
    - `unrecoverable`: its handler, or its policy, said that trying again is useless
    - `crashed`: its worker crashed too often while it ran
    - `invalid`: the arguments do not fit the task
    - `unverified`: the codec of the app found it unsigned, unencrypted or changed, or lacks its key
    - `undecodable`: the bytes are no message
    - `oversized`: it is larger than this worker accepts
    - `unknown_task`: no worker knew its task for an hour
    - `refused`: the store refused to write its outcome, or to take it from an outbox
    - `unknown_version`: no worker knew the version of its envelope for an hour
    """

    EXHAUSTED = "exhausted"  # it failed and its retries are spent
    UNRECOVERABLE = "unrecoverable"  # its handler said that trying again is useless
    CRASHED = "crashed"  # its worker crashed too often while it ran
    INVALID = "invalid"  # the arguments do not fit the task
    UNVERIFIED = "unverified"  # the app's codec found it unsigned, unencrypted or changed, or lacks its key
    UNDECODABLE = "undecodable"  # the bytes are no message
    OVERSIZED = "oversized"  # larger than this worker accepts
    UNKNOWN_TASK = "unknown_task"  # no worker knew its task for an hour
    REFUSED = "refused"  # the store refused to write its outcome
    UNKNOWN_VERSION = "unknown_version"  # no worker knew its envelope's version for an hour


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error as text, cut to a bounded length. Exceptions are never stored as objects."""

    error_type: str
    error: str
    traceback: str = ""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A result to keep for `ttl_us`: its bytes, or why there are none."""

    value: bytes | None
    ttl_us: int
    note: str = ""


class Done(msgspec.Struct, frozen=True, gc=False):
    """The message succeeded. Without `kept`, nothing of it remains. `state`: the state in its end record;
    None: as it is stored."""

    kept: Kept | None = None
    state: State | None = None


class Retry(msgspec.Struct, frozen=True):
    """The message failed or crashed and runs again after a delay."""

    state: State
    delay_us: int


class Snoozed(msgspec.Struct, frozen=True):
    """The handler asked to run again later; no attempt is spent."""

    state: State
    delay_us: int


class Released(msgspec.Struct, frozen=True):
    """The message is handed back: it is ready at once, before all others, or after a delay. `unstarted`: no
    handler has begun with it, so it gives the tokens of its rates back.

    `constraints`: its producer did not know all limits of the message, and from now on it has these
    constraints. Then it is ready at once, in the lane of its priority, behind the others of its line."""

    state: State = FRESH
    delay_us: int = 0
    unstarted: bool = False
    constraints: Constraints | None = None


class Dead(msgspec.Struct, frozen=True):
    """The message goes to the dead letters, with its bytes and the reason."""

    state: State
    reason: DeadReason
    failure: Failure


class Cancelled(msgspec.Struct, frozen=True):
    """The message was cancelled; an end record is kept for `ttl_us`. `state` is as in `Done`."""

    ttl_us: int
    state: State | None = None


class Expired(msgspec.Struct, frozen=True):
    """The message was not started in time; an end record is kept for `ttl_us`."""

    ttl_us: int


Outcome = Done | Retry | Snoozed | Released | Dead | Cancelled | Expired

DONE = Done()


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """One claim and its outcome. `forwards` are messages for other streams: the step that writes the outcome
    writes them into the outbox of the claim's stream. `record`: that step writes it into the history."""

    claim: Claim
    outcome: Outcome
    forwards: tuple[Outgoing, ...] = ()
    record: HistoryEntry | None = None


class Verdict(StrEnum):
    """The answer of a store to a settlement."""

    KEPT = "kept"  # written
    GONE = "gone"  # a success, but the message is already finished, retrying or dead: nothing was written
    LOST = "lost"  # another worker holds it by now, or it ended: nothing was written
