"""Jobs: tasks, calls, and what becomes of them. A layer over the engine that does not know events.

Here are the types that the methods of `App`, `Task` and `Job` take and return, for annotations.
"""

from headrace.core.schedules.schedule import Timing
from headrace.jobs.declaring.queue import QueueSettings
from headrace.jobs.handles.sync_job import SyncJob
from headrace.jobs.scheduling.schedules import ScheduleDecorator, Schedules

from .options import BatchTaskSettings, CallOptions, CallOverrides, TaskOptions, TaskSettings
from .remote import RemoteCall, RemoteTask
from .task import AsyncTask, BatchTask, BatchTaskDecorator, SyncEnqueue, SyncTask, TaskDecorator

__all__ = [
    "AsyncTask",
    "BatchTask",
    "BatchTaskDecorator",
    "BatchTaskSettings",
    "CallOptions",
    "CallOverrides",
    "QueueSettings",
    "RemoteCall",
    "RemoteTask",
    "ScheduleDecorator",
    "Schedules",
    "SyncEnqueue",
    "SyncJob",
    "SyncTask",
    "TaskDecorator",
    "TaskOptions",
    "TaskSettings",
    "Timing",
]
