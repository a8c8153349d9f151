"""The same verbs for synchronous callers, carried to the app's event loop. Nothing is implemented twice."""

from headrace.sync.admin import SyncAdmin
from headrace.sync.portal import Portal
from headrace.sync.schedules import SyncSchedules
from headrace.sync.sync import Sync

__all__ = ["Portal", "Sync", "SyncAdmin", "SyncSchedules"]
