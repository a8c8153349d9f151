"""Gathers the claims of batch tasks into bundles: what is there together, or comes within a short time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Envelope, Stream, decode_envelope
from headrace.engine.declared.registry import BatchRule

from .bundle import Bundle, bundle_of

#: Claims are gathered for each queue, task and tenant.
GatheringKey = tuple[Stream, str, str]


class JobGathering:
    """Claims that wait until their batch is full, or until its time is over. `rules` are by task."""

    def __init__(self, rules: Mapping[str, BatchRule], put: Callable[[list[Claim]], None]) -> None:
        self._rules = rules
        self._put = put
        self._gathered: dict[GatheringKey, list[Claim]] = {}
        self._timers: dict[GatheringKey, asyncio.TimerHandle] = {}

    @property
    def empty(self) -> bool:
        return not self._gathered

    def sort(self, claims: Sequence[Claim]) -> list[Claim]:
        """Gather the claims of batch tasks. Returns the others, and the bundles that are complete."""
        ready: list[Claim] = []
        for claim in claims:
            envelope = None if type(claim) is Bundle or claim.stream.kind != "queue" else _envelope_of(claim)
            rule = None if envelope is None else self._rules.get(envelope.task)
            if envelope is None or rule is None:
                ready.append(claim)
            elif _is_alone(claim, envelope, rule):
                ready.append(bundle_of(claim, [claim]))
            else:
                tenant = "" if claim.constraints is None else claim.constraints.tenant
                ready += self._gather((claim.stream, envelope.task, tenant), claim, rule)
        at_once = [key for key in self._gathered if not self._rules[key[1]].wait]
        return ready + [self._bundle(key) for key in at_once]

    def take_back(self, wanted: Callable[[Claim], bool]) -> list[Claim]:
        """Remove gathered claims."""
        taken: list[Claim] = []
        for key, claims in list(self._gathered.items()):
            taken += [claim for claim in claims if wanted(claim)]
            self._gathered[key] = [claim for claim in claims if not wanted(claim)]
            if not self._gathered[key]:
                self._end(key)
        return taken

    def _gather(self, key: GatheringKey, claim: Claim, rule: BatchRule) -> list[Claim]:
        gathered = self._gathered.setdefault(key, [])
        gathered.append(claim)
        if len(gathered) >= rule.size:
            return [self._bundle(key)]
        if rule.wait and key not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(rule.wait, self._time_is_over, key)
        return []

    def _time_is_over(self, key: GatheringKey) -> None:
        self._put([self._bundle(key)])

    def _bundle(self, key: GatheringKey) -> Bundle:
        claims = self._end(key)
        return bundle_of(claims[0], claims)

    def _end(self, key: GatheringKey) -> list[Claim]:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return self._gathered.pop(key)


def _is_alone(claim: Claim, envelope: Envelope, rule: BatchRule) -> bool:
    """Whether a job is not put together with others: it crashed before, or has a key of its order."""
    overrides = envelope.overrides
    return claim.suspect or rule.ordered or (overrides is not None and overrides.ordered)


def _envelope_of(claim: Claim) -> Envelope | None:
    try:
        return decode_envelope(claim.body)
    except DECODE_ERRORS:
        return None  # it is refused when it runs
