"""What is public is written down here too: a name is added or removed on purpose, or not at all."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import headrace
from headrace import core, signals

NAMES = [
    "AlreadySettled",
    "App",
    "AppClosed",
    "BackendUnavailable",
    "BatchResult",
    "Call",
    "CallNext",
    "Codec",
    "ConfigurationError",
    "DeadLetter",
    "Delivery",
    "Depends",
    "Duplicate",
    "DuplicateJob",
    "EncryptedCodec",
    "Event",
    "EventInfo",
    "GroupInfo",
    "HeadraceError",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobInfo",
    "JobProgress",
    "JobStatus",
    "Limit",
    "LimitInfo",
    "NotDurable",
    "Page",
    "PayloadTooLarge",
    "Published",
    "Queue",
    "QueueFull",
    "QueueInfo",
    "Refused",
    "Replayed",
    "ResultNotKept",
    "ResultTimeout",
    "RetryLater",
    "RetryPolicy",
    "Run",
    "RunInfo",
    "ScheduleInfo",
    "Secret",
    "Sending",
    "SignedCodec",
    "Snooze",
    "Task",
    "Topic",
    "TopicInfo",
    "TopicPattern",
    "UnknownEvent",
    "UnknownTask",
    "Unrecoverable",
    "Worker",
    "WorkerInfo",
    "__version__",
    "current_job",
    "signals",
]

SIGNALS = [
    "BackendError",
    "ChildNotStarted",
    "CleanupFailed",
    "ClockStepped",
    "DeadDropped",
    "EventDied",
    "EventExpired",
    "EventFailed",
    "EventHandled",
    "EventPublished",
    "EventRecovered",
    "EventRetrying",
    "EventSignal",
    "EventUnsettled",
    "GroupPassed",
    "GroupStalled",
    "JobCancelled",
    "JobDied",
    "JobEnqueued",
    "JobExpired",
    "JobFailed",
    "JobRecovered",
    "JobRetrying",
    "JobSignal",
    "JobStarted",
    "JobSucceeded",
    "LeaseChanged",
    "LeaseLost",
    "LeftTaskFailed",
    "LimitChanged",
    "OrderDisputed",
    "Signal",
    "ThreadOverdue",
    "TopicHeld",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
]

#: What the errors of the tree are called, as the API promises them.
ERRORS = [
    "AlreadySettled",
    "AppClosed",
    "BackendUnavailable",
    "ConfigurationError",
    "InvalidPayload",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "NotDurable",
    "PayloadTooLarge",
    "QueueFull",
    "ResultNotKept",
    "ResultTimeout",
    "UnknownTask",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert headrace.__all__ == NAMES
    assert signals.__all__ == SIGNALS


def test_they_are_sorted() -> None:
    assert sorted(NAMES) == NAMES
    assert sorted(SIGNALS) == SIGNALS


def test_each_of_them_can_be_imported() -> None:
    for module in (headrace, signals):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_each_of_them_says_what_it_is() -> None:
    for module in (headrace, signals):
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), f"{name} has no docstring"


def test_every_error_hangs_on_one_tree() -> None:
    for name in ERRORS:
        assert issubclass(getattr(headrace, name), headrace.HeadraceError)


def test_an_error_is_called_as_users_import_it() -> None:
    for name in headrace.__all__:
        value = getattr(headrace, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            assert (value.__module__, value.__qualname__) == ("headrace", name)


def test_the_version_is_that_of_the_package() -> None:
    assert headrace.__version__ == version("headrace")


def test_every_signal_there_is_is_public() -> None:
    defined = {
        name
        for name, value in vars(core.signals).items()
        if inspect.isclass(value) and issubclass(value, core.signals.Signal)
    }
    assert defined == set(SIGNALS)


def test_what_an_error_holds_is_evidence() -> None:
    unavailable = headrace.BackendUnavailable("away", uncertain=True)
    assert (unavailable.uncertain, unavailable.transient) == (True, False)
    job = headrace.App("memory://").job("a")
    not_durable = headrace.NotDurable("not on the replica", accepted=[job])
    assert (not_durable.job, not_durable.accepted, not_durable.uncertain) == (job, [job], True)
    event = headrace.NotDurable("not on the replica", event="b")
    assert (event.job, event.accepted, event.event) == (None, [], "b")
    assert headrace.QueueFull("full", accepted=(job,)).accepted == [job]
    failed = headrace.JobFailed("dead", error_type="ValueError", error="no", traceback="…")
    assert (failed.error_type, failed.error, failed.traceback) == ("ValueError", "no", "…")
    assert issubclass(headrace.ResultTimeout, TimeoutError)
