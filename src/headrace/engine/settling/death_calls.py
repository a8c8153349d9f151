"""The calls of `on_dead`: what is forwarded with the settlement that makes a job a dead letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.ids import derived_id
from headrace.core.messages.message import Stream, decode_envelope
from headrace.core.messages.outcome import Dead, DeadReason, Failure
from headrace.core.messages.outgoing import Outgoing
from headrace.core.signals import BackendError
from headrace.engine.emitter import Emitter
from headrace.engine.running.failure import described
from headrace.engine.running.finished import FinishedRun

#: Characters of an error that are left when the whole error does not fit into a call.
SHORT = 200


class DeathReport(msgspec.Struct, frozen=True):
    """What the task of `on_dead` gets, in this order."""

    id: str
    task: str
    queue: str
    reason: str
    error: str


class DeathTask(msgspec.Struct, frozen=True):
    """The task that a queue names as `on_dead`. `call` makes the message for the outbox, with this id."""

    name: str
    call: Callable[[DeathReport, str], Outgoing]


class DeathCalls:
    """`tasks` are by queue. The jobs of these tasks die in silence: a call for them could go on for ever."""

    def __init__(self, tasks: Mapping[str, DeathTask], emitter: Emitter) -> None:
        self._tasks = tasks
        self._silent = {task.name for task in tasks.values()}
        self._emitter = emitter

    def with_call(self, finished: FinishedRun) -> FinishedRun:
        """The settlement; for a death, with the call of `on_dead`. The call is made once: a settlement that
        is repeated has an equal call."""
        claim, outcome = finished.claim, finished.outcome
        if type(outcome) is not Dead or claim.whole.kind != "queue":
            return finished
        task = finished.task or _task_of(claim.body)
        # One hand-out dies once, and a replayed job that dies again has another.
        cause = claim.id, str(claim.claimed_us)
        call = self.call(claim.whole, cause, task, outcome.reason, outcome.failure)
        return finished if call is None else msgspec.structs.replace(finished, forwards=(call,))

    def call(
        self, queue: Stream, cause: tuple[str, str], task: str, reason: DeadReason, failure: Failure
    ) -> Outgoing | None:
        """The call for one death; None: there is none. `cause`: the id of the job, and which death it is."""
        wanted = self._tasks.get(queue.name)
        if wanted is None or task in self._silent:
            return None
        death = DeathReport(cause[0], task, queue.name, reason.value, failure.error)
        id = derived_id("on_dead", queue.name, *cause)
        try:
            return wanted.call(death, id)
        except Exception:
            return self._shortened(wanted, death, id)

    def _shortened(self, wanted: DeathTask, death: DeathReport, id: str) -> Outgoing | None:
        try:
            return wanted.call(msgspec.structs.replace(death, error=death.error[:SHORT]), id)
        except Exception as error:  # the job is dead all the same
            self._emitter.emit(BackendError(f"on_dead of {death.queue}", described(error), 0.0))
            return None


def _task_of(body: bytes) -> str:
    try:
        return decode_envelope(body).task
    except DECODE_ERRORS:
        return ""
