"""Background jobs and events for Python on one engine."""

from headrace import signals
from headrace.core.crypto.encrypted import EncryptedCodec
from headrace.core.crypto.signed import SignedCodec
from headrace.core.encoding.codec import Codec
from headrace.core.errors import (
    AlreadySettled,
    AppClosed,
    BackendUnavailable,
    ConfigurationError,
    DuplicateJob,
    HeadraceError,
    InvalidPayload,
    JobCancelled,
    JobExpired,
    JobFailed,
    NotDurable,
    PayloadTooLarge,
    QueueFull,
    ResultNotKept,
    ResultTimeout,
    UnknownEvent,
    UnknownTask,
)
from headrace.core.limits.limit import Limit
from headrace.core.messages.directives import BatchResult, RetryLater, Snooze, Unrecoverable
from headrace.core.messages.retry import RetryPolicy
from headrace.core.messages.sending import Sending
from headrace.core.records.job_info import JobInfo, JobProgress, RunInfo
from headrace.core.records.record import DeadLetter, JobStatus, Page, WorkerInfo
from headrace.core.values.secret import Secret
from headrace.engine.declared.queue import Queue
from headrace.engine.declared.registry import CallNext
from headrace.engine.running.injection.dependencies import Depends
from headrace.engine.running.run import Run, current_job
from headrace.engine.worker.worker import Worker
from headrace.events.delivery import Delivery
from headrace.events.event import Duplicate, Event, Published, Refused
from headrace.events.topic import Topic, TopicPattern
from headrace.jobs.handles.job import Job
from headrace.jobs.scheduling.schedule_info import ScheduleInfo
from headrace.jobs.task import Call, Task

from .admin import EventInfo, GroupInfo, LimitInfo, QueueInfo, Replayed, TopicInfo
from .app import App

__version__ = "0.1.0.dev0"

__all__ = [
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
