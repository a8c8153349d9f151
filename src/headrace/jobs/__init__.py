"""Jobs: tasks, calls, and what becomes of them. A layer over the engine that does not know events.

Here are the types that the methods of `App`, `Task` and `Job` take and return, for annotations.
"""

from headrace.core.schedules.schedule import Timing

from .declaring.queue import QueueSettings
from .handles.sync_job import SyncJob
from .options import BatchTaskSettings, CallOptions, CallOverrides, TaskOptions, TaskSettings
from .remote import RemoteCall, RemoteTask
from .scheduling.schedules import ScheduleDecorator, Schedules
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
