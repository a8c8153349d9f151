"""Decodes a claim and finds its handler. The answer is a run, or an outcome when no run is possible."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import NewerVersion, PayloadError, UnverifiedPayload
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import ENVELOPE_ROOM, ENVELOPE_VERSION, Envelope, Stream, decode_envelope
from headrace.core.messages.outcome import DeadReason, Expired, Released
from headrace.engine.declared.registry import Fit, Handler, Registry
from headrace.engine.emitter import Emitter
from headrace.engine.running.injection.resources import Resources
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.worker.options import WorkerOptions

from .finished import FinishedRun
from .job_limits import JobLimits
from .outcome_policy import OutcomePolicy
from .run import Run


class RunParts(NamedTuple):
    """The parts of a worker that every run needs."""

    worker: str
    options: WorkerOptions
    registry: Registry
    emitter: Emitter
    held: HeldClaims
    policy: OutcomePolicy
    resources: Resources | None
    limits: JobLimits


class RunPreparation:
    """Prepares the runs of one worker. Every message gets an outcome, whatever it contains."""

    def __init__(self, parts: RunParts, acks: ManualAcks) -> None:
        self._registry = parts.registry
        self._find = parts.registry.find
        self._policy = parts.policy
        self._acks = acks
        self._max_body = parts.options.max_payload + ENVELOPE_ROOM
        self._max_payload = parts.options.max_payload
        self._clock_us = parts.held.store_clock_us
        self._resources = parts.resources
        self._limits = parts.limits
        self._stream: Stream | None = None  # of the last claim; the next one mostly has the same
        self._of_queue = False

    def prepare(self, claim: Claim) -> Run | FinishedRun:
        """Decode the claim and find its handler: a run, or the outcome when no run is possible."""
        body = claim.body
        if len(body) > self._max_body:
            return self._refuse(claim, DeadReason.OVERSIZED, f"the message has {len(body):,} bytes")
        try:
            envelope = decode_envelope(body)
        except DECODE_ERRORS as error:
            return self._undecodable(claim, error)
        if envelope.version != ENVELOPE_VERSION:
            return self._of_another_version(claim, envelope.version, envelope.task)
        if claim.stream is not self._stream:
            self._stream, self._of_queue = claim.stream, claim.stream.kind == "queue"
        handler = self._find(envelope.task) if self._of_queue else self._serving(claim)
        if handler is None:
            return self._unknown(claim, envelope.task)
        if len(body) > self._max_payload and (refused := self._oversized(claim, envelope)):
            return refused
        if claim.expires_us and (expired := self._expired(claim, envelope)):
            return expired
        if handler.limited and (relabeled := self._relabeled(claim, handler)):
            return relabeled
        return self._with_arguments(claim, envelope, handler)

    def _with_arguments(self, claim: Claim, envelope: Envelope, handler: Handler) -> Run | FinishedRun:
        try:
            if handler.fit is not None:
                return self._fitted(claim, envelope, handler, handler.fit)
            if handler.decode_bound is not None:
                args, kwargs = handler.decode_bound(claim.id, envelope)
            else:
                args, kwargs = handler.decode(envelope.payload)
        except NewerVersion as error:
            outcome = self._policy.unknown(claim, DeadReason.UNKNOWN_VERSION, str(error))
            return FinishedRun(claim, outcome, (), None, envelope.task)
        except UnverifiedPayload as error:
            return self._refuse(claim, DeadReason.UNVERIFIED, str(error), envelope.task)
        except PayloadError as error:
            return self._refuse(claim, DeadReason.INVALID, str(error), envelope.task)
        except Exception as error:  # a user's type may raise any error when it is created
            text = f"the arguments cannot be made: {type(error).__name__}: {error}"
            return self._refuse(claim, DeadReason.INVALID, text, envelope.task)
        return Run(claim, envelope, handler, args, kwargs, self._resources)

    def _fitted(self, claim: Claim, envelope: Envelope, handler: Handler, fit: Fit) -> Run:
        run = Run(claim, envelope, handler, (), {}, self._resources)
        run.args = fit(run, self._acks)
        return run

    def _unknown(self, claim: Claim, task: str) -> FinishedRun:
        text = (
            f"no task called {task!r} is registered here"
            if self._of_queue
            else f"this worker has no subscription {claim.whole.name}"
        )
        unknown = self._policy.unknown(claim, DeadReason.UNKNOWN_TASK, text)
        return FinishedRun(claim, unknown, task=task)

    def _oversized(self, claim: Claim, envelope: Envelope) -> FinishedRun | None:
        size = len(envelope.payload)
        if size <= self._max_payload:
            return None
        text = f"the payload has {size:,} bytes, more than {self._max_payload:,}"
        return self._refuse(claim, DeadReason.OVERSIZED, text, envelope.task)

    def _expired(self, claim: Claim, envelope: Envelope) -> FinishedRun | None:
        if claim.state.begun or self._clock_us(claim) < claim.expires_us:
            return None
        # No end record is kept of an expired event: no caller waits for it.
        return FinishedRun(
            claim, Expired(self._policy.end_record_ttl_us if self._of_queue else 0), task=envelope.task
        )

    def _relabeled(self, claim: Claim, handler: Handler) -> FinishedRun | None:
        """A job whose producer did not know all its limits goes back, to wait for them."""
        constraints = self._limits.missing(claim, handler)
        if constraints is None:
            return None
        outcome = Released(claim.state, unstarted=True, constraints=constraints)
        return FinishedRun(claim, outcome, task=handler.name)

    def _serving(self, claim: Claim) -> Handler | None:
        subscription = self._registry.serving(claim)
        return None if subscription is None else subscription.handler

    def _undecodable(self, claim: Claim, error: BaseException) -> FinishedRun:
        if claim.unreadable:
            return self._refuse(claim, DeadReason.UNDECODABLE, claim.unreadable)
        version = _version_of(claim.body)
        if version is not None and version != ENVELOPE_VERSION:
            return self._of_another_version(claim, version, "")
        return self._refuse(claim, DeadReason.UNDECODABLE, f"{type(error).__name__}: {error}")

    def _of_another_version(self, claim: Claim, version: int, task: str) -> FinishedRun:
        text = f"the message has version {version}; this worker reads version {ENVELOPE_VERSION}"
        unknown = self._policy.unknown(claim, DeadReason.UNKNOWN_VERSION, text)
        return FinishedRun(claim, unknown, task=task)

    def _refuse(self, claim: Claim, reason: DeadReason, text: str, task: str = "") -> FinishedRun:
        outcome = self._policy.refused(claim, reason, text)
        return FinishedRun(claim, outcome, task=task, failure=outcome.failure)


def _version_of(body: bytes) -> int | None:
    try:
        decoded = msgspec.msgpack.decode(body)
    except DECODE_ERRORS:
        return None
    first = decoded[0] if isinstance(decoded, list) and decoded else None
    return first if isinstance(first, int) else None
