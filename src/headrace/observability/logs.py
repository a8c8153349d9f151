"""Signals as log lines for people: one line, one fact, on the logger `headrace`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

import msgspec

from headrace.core.signals import (
    BackendError,
    ChildNotStarted,
    CleanupFailed,
    ClockStepped,
    DeadDropped,
    EventDied,
    EventExpired,
    EventFailed,
    EventHandled,
    EventRecovered,
    EventRetrying,
    EventSignal,
    EventUnsettled,
    GroupPassed,
    GroupStalled,
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    JobRecovered,
    JobRetrying,
    JobSignal,
    JobStarted,
    JobSucceeded,
    LeaseChanged,
    LeaseLost,
    LeftTaskFailed,
    LimitChanged,
    OrderDisputed,
    Signal,
    ThreadOverdue,
    TopicHeld,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from headrace.core.values.times import span
from headrace.core.values.whole_numbers import counted

#: How a listener is added: `on(signal, listener)`.
On = Callable[[type[Signal], Callable[[Signal], None]], object]

#: Seconds between two lines about a store that is unavailable.
INTERVAL = 1.0

#: Characters that begin a line, move the cursor of a terminal, change the direction of text or are invisible.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)

#: Characters of a traceback that are logged: its end, which names the error.
TRACEBACK_LENGTH = 8 * 1024

#: Before each line of a traceback, so that no part of it can look like a line of the log.
_INDENT = "    "


class OneLine(logging.Filter):
    """Makes a record a single line, because names and errors may hold any text. A traceback follows in lines
    of its own, each indented."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:  # the handler reports what is wrong with the record
            return True
        if _CONTROL.search(text):
            record.msg, record.args = one_line(text), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _indented(_formatter.formatException(record.exc_info))
        elif traceback := getattr(record, "traceback", ""):  # of a signal, which has it as text
            record.exc_text = _indented(str(traceback).rstrip("\n"))
        return True


def one_line(text: str) -> str:
    """The text with codes for the characters that would break the line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _indented(text: str) -> str:
    return "\n".join(f"{_INDENT}{one_line(line)}" for line in text.split("\n"))


_formatter = logging.Formatter()
logger = logging.getLogger("headrace")
logger.addFilter(OneLine())


def log_signals(on: On) -> None:
    """Log failures, and the start and stop of workers."""
    for signal in (
        JobDied,
        JobExpired,
        JobRecovered,
        JobRetrying,
        JobCancelled,
        LeaseLost,
        LeaseChanged,
        LimitChanged,
        DeadDropped,
        ThreadOverdue,
        LeftTaskFailed,
        ClockStepped,
        ChildNotStarted,
        CleanupFailed,
        EventDied,
        EventExpired,
        EventRecovered,
        EventRetrying,
        EventUnsettled,
        TopicHeld,
        GroupPassed,
        OrderDisputed,
        GroupStalled,
        WorkerStarted,
        WorkerStopping,
        WorkerStopped,
    ):
        on(signal, _log)
    on(BackendError, RateLimited())


def log_every_job(on: On) -> None:
    """Log starts, successes and tracebacks as well: a line or two for each job."""
    for signal in (JobStarted, JobSucceeded, JobFailed, EventHandled, EventFailed):
        on(signal, _log)


def log_finished_jobs(on: On) -> None:
    """Log each success at the level info: one line for each finished job, for a person at a terminal. What
    ends in another way is logged by `log_signals`."""
    for signal in (JobSucceeded, EventHandled):
        on(signal, _log_finished)


class RateLimited:
    """Logs at most one line each `INTERVAL` seconds: while a store is unavailable, every service of a worker
    fails again and again."""

    def __init__(self) -> None:
        self._logged_at: float | None = None
        self._suppressed = 0

    def __call__(self, signal: Signal) -> None:
        now = time.monotonic()
        if self._logged_at is not None and now - self._logged_at < INTERVAL:
            self._suppressed += 1
            return
        more = f" (and {self._suppressed:,} similar errors before)" if self._suppressed else ""
        self._logged_at, self._suppressed = now, 0
        _log(signal, more)


def _log(signal: Signal, more: str = "") -> None:
    level, text = _line(signal)
    if not logger.isEnabledFor(level):
        return
    logger.log(level, "%s", text + more, extra=_fields(signal))


def _log_finished(signal: Signal) -> None:
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", _line(signal)[1], extra=_fields(signal))


def _fields(signal: Signal) -> dict[str, object]:
    """The fields of a signal as attributes of the record. Those of a job have the names of `JobContext`."""
    fields = {"signal": type(signal).__name__, **msgspec.structs.asdict(signal)}
    if "traceback" in fields:
        fields["traceback"] = fields["traceback"][-TRACEBACK_LENGTH:]
    if isinstance(signal, JobSignal):
        fields["job_id"] = fields.pop("id")
    elif isinstance(signal, EventSignal):
        place = f"{signal.topic}/{signal.group}" if signal.group else signal.topic
        fields |= {"job_id": fields.pop("id"), "task": signal.kind, "queue": place}
    return fields


def _line(signal: Signal) -> tuple[int, str]:
    match signal:
        case LeftTaskFailed(task=task, id=id, error=error):
            return logging.WARNING, f"a task that {task} {id} left behind failed: {error}"
        case JobSignal(task=task, id=id):
            level, text = _text(signal)
            return level, f"{task} {id} {text}"
        case EventSignal(topic=topic, id=id, group=group):
            level, text = _text(signal)
            return level, f"{topic} {id}{f' for {group}' if group else ''} {text}"
        case _:
            return _worker_line(signal)


def _text(signal: Signal) -> tuple[int, str]:
    """What happened to one job or event."""
    match signal:
        case JobRetrying(delay=delay, why="snoozed") | EventRetrying(delay=delay, why="snoozed"):
            return logging.INFO, f"snoozed for {span(delay)}"
        case JobRetrying() | EventRetrying():
            text = f"failed on attempt {signal.attempt}, again in {span(signal.delay)}: {signal.why}"
            return logging.WARNING, text
        case JobDied() | EventDied():
            kind, reason = signal.error_type, signal.reason
            cause = f"{kind}: {signal.error}" if kind and kind != reason else signal.error
            return logging.ERROR, f"is dead after {_runs(signal)} ({reason}): {cause}"
        case JobRecovered() | EventRecovered():
            text = f"recovered from {signal.worker}, which is gone (crash {signal.crashes})"
            return logging.WARNING, text
        case JobExpired():
            return logging.WARNING, "expired before it could start"
        case EventExpired():
            return logging.WARNING, "expired before it was handled"
        case LeaseLost():
            text = "has lost its lease: another worker may run it, and this outcome is refused"
            return logging.WARNING, text
        case EventUnsettled():
            text = "was not settled by its handler; it is delivered again when its lease ends"
            return logging.WARNING, text
        case _:
            return _detail(signal)


def _runs(signal: JobDied | EventDied) -> str:
    attempts = counted(signal.attempt, "attempt")
    return f"{attempts}, the last took {span(signal.seconds)}" if signal.seconds else attempts


def _detail(signal: Signal) -> tuple[int, str]:
    match signal:
        case ThreadOverdue(timeout=timeout):
            text = f"is past its timeout of {span(timeout)}; its thread keeps a slot until it ends"
            return logging.WARNING, text
        case JobCancelled():
            return logging.INFO, "cancelled"
        case JobStarted(attempt=attempt):
            return logging.DEBUG, f"started, attempt {attempt}"
        case JobSucceeded(seconds=seconds):
            return logging.DEBUG, f"done in {span(seconds)}"
        case EventHandled(seconds=seconds):
            return logging.DEBUG, f"handled in {span(seconds)}"
        case JobFailed() | EventFailed():
            return logging.DEBUG, "raised"
        case _:
            return logging.DEBUG, repr(signal)


def _change_text(signal: LimitChanged | LeaseChanged) -> str:
    if isinstance(signal, LimitChanged):
        return f"limit {signal.limit} is now {signal.figures} for all, was {signal.previous}"
    return f"the lease of {signal.queue} is now {span(signal.lease)} for all, was {span(signal.previous)}"


def _started_text(signal: WorkerStarted) -> str:
    served = ", ".join((*signal.queues, *signal.topics))
    if not served:
        return f"worker {signal.worker} relays outboxes to {signal.store}"
    at_a_time = f"{signal.concurrency} at a time, lease {span(signal.lease)}"
    return f"worker {signal.worker} serves {served} on {signal.store}, {at_a_time}"


def _worker_line(signal: Signal) -> tuple[int, str]:
    match signal:
        case WorkerStarted():
            return logging.INFO, _started_text(signal)
        case WorkerStopping(running=0):
            return logging.INFO, "stopping: nothing is running"
        case WorkerStopping(running=running, grace=grace):
            return logging.INFO, f"stopping: {running} running, they have {span(grace)} to end"
        case WorkerStopped(processed=processed, released=released):
            return logging.INFO, f"stopped after {counted(processed, 'job')}, {released:,} handed back"
        case LimitChanged() | LeaseChanged():
            return logging.WARNING, _change_text(signal)
        case BackendError():
            return logging.WARNING, _store_error(signal)
        case ClockStepped(seconds=seconds):
            return logging.WARNING, _clock_text(seconds)
        case ChildNotStarted(error=error, delay=delay):
            return logging.WARNING, f"no child process could be started ({error}); next try in {delay:g} s"
        case CleanupFailed(resource=resource, error=error):
            return logging.ERROR, f"the cleanup of {resource} failed: {error}"
        case _:
            return _topic_line(signal)


def _topic_line(signal: Signal) -> tuple[int, str]:
    match signal:
        case DeadDropped(queue=queue, count=count):
            return logging.WARNING, f"queue {queue}: its {count:,} oldest dead letters were dropped"
        case TopicHeld(topic=topic, group=group):
            return logging.WARNING, f"group {group} lags: {topic} keeps events beyond its retention for it"
        case GroupPassed(topic=topic, group=group):
            text = f"group {group} of {topic} had no member for a day: {topic} keeps no more events for it"
            return logging.WARNING, text
        case OrderDisputed(topic=topic, group=group):
            text = f"members of group {group} of {topic} disagree about ordered=: it stays ordered for now"
            return logging.WARNING, text
        case GroupStalled(topic=topic, group=group):
            text = f"group {group} of {topic} takes no new events: too many of its keys are stuck"
            return logging.WARNING, text
        case _:
            return logging.DEBUG, repr(signal)


def _clock_text(seconds: float) -> str:
    if seconds < 0:
        return f"the store's clock was set back by {span(-seconds)}: delayed jobs wait that much longer"
    return f"the store's clock was set forward by {span(seconds)}: nothing is recovered for one lease"


def _store_error(signal: BackendError) -> str:
    if signal.service == "start":
        return f"store unavailable, waits up to {signal.delay:.0f} s more: {signal.error}"
    return f"the {signal.service} failed, tries again in {span(signal.delay)}: {signal.error}"
