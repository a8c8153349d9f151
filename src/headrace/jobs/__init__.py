"""Jobs: tasks, calls, and what becomes of them. A layer over the engine that does not know events.

Here are the types that the methods of `App`, `Task` and `Job` take and return, for annotations.
"""

from headrace.core.schedules.schedule import Timing

from .options import CallOptions, CallOverrides, TaskOptions, TaskSettings
from .schedules import ScheduleDecorator, Schedules
from .task import AsyncTask, SyncTask, TaskDecorator

__all__ = [
    "AsyncTask",
    "CallOptions",
    "CallOverrides",
    "ScheduleDecorator",
    "Schedules",
    "SyncTask",
    "TaskDecorator",
    "TaskOptions",
    "TaskSettings",
    "Timing",
]
