"""Which fault explains what: shared by the rules that allow something only after a fault."""

from __future__ import annotations

from .fleet import GRACE
from .history import FaultSpan, History, MessageStory, RunSpan

#: Leases after the end of a run, or of a fault, within which what it left unwritten may still show.
AFTERMATH = 2.0

#: Seconds by which the grace of a worker may end early: the fault is written down after the signal.
EARLY = 0.05


def of_a_second_run(history: History, first: RunSpan, second: RunSpan) -> FaultSpan | None:
    """The fault because of which a message may run again: it hit the process of the first run, or the store,
    before the outcome of that run was surely written. Or it hit the second process, which held the message
    from before."""
    slack = AFTERMATH * history.lease
    until = min(second.begin, first.end + slack)
    for fault in history.faults_between(first.begin - slack, second.begin):
        if first.succeeded and fault.gentle and not _ended_after_its_grace(first, fault):
            continue
        if fault.hits(first.process) and fault.overlaps(first.begin - slack, until):
            return fault
        if fault.hits(second.process):
            return fault
    return None


def _ended_after_its_grace(run: RunSpan, fault: FaultSpan) -> bool:
    """Whether a worker that was asked to stop had handed the message back before the end of its run. A thread
    cannot be interrupted, so its function may still succeed."""
    return "terminated" in fault.name and run.end >= fault.begin + GRACE - EARLY


def of_a_cut_run(history: History, run: RunSpan) -> FaultSpan | None:
    """The first fault that hit a run which never said that it ended."""
    for fault in history.faults_between(run.begin, run.end):
        if fault.hits(run.process):
            return fault
    return None


def of_a_loss(history: History, story: MessageStory, group: str) -> FaultSpan | None:
    """The fault with which the store lost what it held, after this message was sent and before its end."""
    sent = story.sent_at
    over = min((run.end for run in story.runs_of(group) if run.succeeded), default=float("inf"))
    return next((fault for fault in history.faults_between(sent, over) if fault.loses), None)


def end_of(history: History, run: RunSpan) -> float:
    """When a run was over: as it said; else when its process ended; else when a fault hit it."""
    if run.ended is not None:
        return run.ended.at
    cut = of_a_cut_run(history, run)
    ends = [history.gone.get(run.process), cut.begin if cut else None]
    return min((end for end in ends if end is not None), default=float("inf"))
