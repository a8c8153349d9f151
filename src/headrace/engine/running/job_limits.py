"""The limits that the jobs of a worker must have. Their producer may know fewer: it runs older code, or it
knows only the name of the task."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.limits.paused_tasks import PAUSED
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints, LimitKey
from headrace.core.messages.message import Stream
from headrace.engine.declared.registry import Handler, Registry


class JobLimits:
    def __init__(self, registry: Registry, queues: Iterable[str]) -> None:
        self._registry = registry
        self._paused: frozenset[str] = frozenset()
        self._stream: Stream | None = None  # of the last claim; the next one mostly has the same
        self._required: dict[str, list[str]] = {}  # of that stream: the names of limits by task
        self._covering: Constraints | None = None  # of the last claim that had every limit
        self._covered: list[str] | None = None  # the limits that it had to have
        served = tuple(queues)
        for handler in list(registry):
            if handler.limits_in is not None and any(map(handler.limits_in, served)):
                registry.limit(handler.name)

    def pause(self, tasks: frozenset[str]) -> None:
        """These tasks are paused, and no others."""
        if tasks != self._paused:
            for task in tasks:
                self._registry.limit(task)
            self._paused, self._stream = tasks, None

    def covers(self, claim: Claim, handler: Handler) -> bool:
        """Whether the job has every limit that it must have. This is the quick look for every job of a
        limited task."""
        required = self._names(claim, handler)
        constraints = claim.constraints
        if constraints is None:
            return not required
        if constraints is self._covering and required is self._covered:
            return True  # most claims of a batch share their constraints
        names = [each.limit for each in constraints.limits]
        covers = names == required or set(names).issuperset(required)
        if covers:
            self._covering, self._covered = constraints, required
        return covers

    def missing(self, claim: Claim, handler: Handler) -> Constraints | None:
        """The constraints that the job must have; None: it has every limit. A limit that its producer did not
        know has no key."""
        if self.covers(claim, handler):
            return None
        before = claim.constraints or NO_CONSTRAINTS
        known = {each.limit for each in before.limits}
        more = [LimitKey(name) for name in self._names(claim, handler) if name not in known]
        return Constraints((*before.limits, *more), before.tenant)

    def _names(self, claim: Claim, handler: Handler) -> list[str]:
        if claim.stream is not self._stream:
            self._stream, self._required = claim.stream, {}
        required = self._required.get(handler.name)
        if required is None:
            required = list(handler.limits_in(claim.whole.name)) if handler.limits_in else []
            required += [PAUSED + handler.name] if handler.name in self._paused else []
            self._required[handler.name] = required
        return required
