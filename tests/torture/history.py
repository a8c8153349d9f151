"""A history: the facts of a round, gathered by message, run and fault, for the rules to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import inf

import msgspec

from .facts import STORE, WORKERS, Fact, Plan

#: Seconds by which a timeout may be early: event loops round the times of their timers.
EARLY = 0.02


class RunSpan(msgspec.Struct, eq=False):
    """A run of a message in one group; jobs have the group `""`."""

    started: Fact
    ended: Fact | None = None

    @property
    def process(self) -> str:
        return self.started.process

    @property
    def begin(self) -> float:
        return self.started.at

    @property
    def end(self) -> float:
        """When it ended, as far as it said so."""
        return self.ended.at if self.ended else inf

    @property
    def succeeded(self) -> bool:
        return self.ended is not None and self.ended.value == "ok"

    @property
    def may_have_overrun(self) -> bool:
        """Whether its timeout may have interrupted it. A worker that stops may have done so in the same
        moment."""
        if self.ended is None or self.ended.value != "interrupted":
            return False
        return 0.0 < self.started.deadline <= self.end + EARLY

    @property
    def failed(self) -> bool:
        """Whether it failed as planned, or may have been interrupted by its timeout."""
        return (self.ended is not None and self.ended.value == "failed") or self.may_have_overrun


class MessageStory(msgspec.Struct, eq=False):
    """All that is known of one message."""

    name: str
    facts: list[Fact]
    invoked: Fact | None = None
    accepted: Fact | None = None
    refused: Fact | None = None
    uncertain: Fact | None = None
    runs: dict[str, list[RunSpan]] = msgspec.field(default_factory=dict)  # by group
    dead: dict[str, Fact] = msgspec.field(default_factory=dict)  # by group
    cancelled: Fact | None = None
    expired: Fact | None = None
    results: list[Fact] = msgspec.field(default_factory=list)
    unread: list[Fact] = msgspec.field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.invoked.plan or Plan() if self.invoked else Plan()

    @property
    def sent_at(self) -> float:
        """When it was sent, at the earliest. A job of a schedule is invoked by its own first run, so it may
        have been in the store since the beginning."""
        return self.invoked.at if self.invoked and not self.plan.schedule else 0.0

    @property
    def is_promised(self) -> bool:
        """Whether the store took it as a message of its own."""
        return self.accepted is not None and not self.accepted.duplicate

    def runs_of(self, group: str) -> list[RunSpan]:
        return self.runs.get(group, [])

    def is_over_in(self, group: str) -> bool:
        """Whether it ended there: a success, a dead letter, or an end by a request such as `cancel`."""
        return (
            any(run.succeeded for run in self.runs_of(group))
            or group in self.dead
            or self.cancelled is not None
            or self.expired is not None
        )


class FaultSpan(msgspec.Struct, frozen=True):
    """A fault, from its beginning until all is as before."""

    name: str
    begin: float
    end: float
    targets: frozenset[str]
    loses: bool
    gentle: bool
    ahead: float = 0.0  # seconds by which it sets the clock of the store ahead

    def hits(self, process: str) -> bool:
        return STORE in self.targets or self.hits_process(process)

    def hits_process(self, process: str) -> bool:
        """Whether it hits the process itself, and not only the store."""
        return process in self.targets or (WORKERS in self.targets and process.startswith("worker-"))

    def overlaps(self, begin: float, end: float) -> bool:
        return self.begin <= end and begin <= self.end


class History:
    """The facts of one round. `lease` is that of its workers, in seconds. `since`: messages that ended before
    this time are left out, as in a part of a long history."""

    def __init__(self, facts: Iterable[Fact], *, lease: float, since: float = 0.0) -> None:
        self.facts = sorted(facts, key=lambda fact: fact.at)
        self.lease = lease
        self.since = since
        self.messages: dict[str, MessageStory] = {}
        self.groups: dict[str, set[str]] = defaultdict(set)  # of each topic
        self.replayed: list[Fact] = []
        self.left: list[Fact] = []
        self.schedules: dict[str, float] = {}  # of each schedule: when it last was due, in seconds since 1970
        self._runs: dict[str, RunSpan] = {}
        self._names: dict[str, str] = {}  # of each job id: the message
        for fact in self.facts:
            self._add(fact)

    @cached_property
    def faults(self) -> list[FaultSpan]:
        open_faults: dict[str, Fact] = {}
        spans: list[FaultSpan] = []
        for fact in self.facts:
            if fact.kind == "fault_begun":
                open_faults[fact.run] = fact
            elif fact.kind == "fault_ended" and fact.run in open_faults:
                spans.append(_span(open_faults.pop(fact.run), fact.at))
        spans += [_span(begun, inf) for begun in open_faults.values()]
        return sorted(spans, key=lambda span: span.begin)

    @cached_property
    def gone(self) -> dict[str, float]:
        """When each process ended."""
        return {fact.process: fact.at for fact in self.facts if fact.kind == "gone"}

    def stories(self) -> Iterator[MessageStory]:
        return iter(self.messages.values())

    def groups_of(self, story: MessageStory) -> set[str]:
        """Where the message must come to an end: a job in the one group of its queue, an event in each."""
        return self.groups[story.plan.topic] if story.plan.topic else {""}

    def faults_between(self, begin: float, end: float) -> Iterator[FaultSpan]:
        return (fault for fault in self.faults if fault.overlaps(begin, end))

    def name_of(self, fact: Fact) -> str:
        return fact.message or self._names.get(fact.job, "")

    def _add(self, fact: Fact) -> None:
        if fact.job and fact.message and fact.kind in ("accepted", "started") and not fact.duplicate:
            self._names.setdefault(fact.job, fact.message)
        match fact.kind:
            case "group":
                self.groups[fact.value].add(fact.group)
            case "replayed":
                self.replayed.append(fact)
            case "left":
                self.left.append(fact)
            case "schedule":
                self.schedules[fact.value] = fact.due
            case _ if name := self.name_of(fact):
                self._add_to(self._story(name), fact)

    def _story(self, name: str) -> MessageStory:
        story = self.messages.get(name)
        if story is None:
            story = self.messages[name] = MessageStory(name, [])
        return story

    def _add_to(self, story: MessageStory, fact: Fact) -> None:
        story.facts.append(fact)
        match fact.kind:
            case "invoked" | "accepted" | "refused" | "uncertain" | "cancelled" | "expired":
                setattr(story, fact.kind, fact)
            case "started":
                span = self._runs[fact.run] = RunSpan(fact)
                story.runs.setdefault(fact.group, []).append(span)
            case "ended" if fact.run in self._runs:
                self._runs[fact.run].ended = fact
            case "dead":
                story.dead[fact.group] = fact
            case "result":
                story.results.append(fact)
            case "unread":
                story.unread.append(fact)


def _span(begun: Fact, end: float) -> FaultSpan:
    targets = frozenset(begun.targets)
    return FaultSpan(begun.value, begun.at, end, targets, begun.loses, begun.gentle, begun.ahead)
