"""The verbs of the app for synchronous callers. `scripts/generate-sync` writes admin, schedules and sync."""

from headrace.sync.admin import SyncAdmin
from headrace.sync.bridge import PublishesMany
from headrace.sync.portal import Portal, Stoppable
from headrace.sync.schedules import SyncSchedules
from headrace.sync.sync import Sync

__all__ = ["Portal", "PublishesMany", "Stoppable", "Sync", "SyncAdmin", "SyncSchedules"]
