"""The verbs of the app for synchronous callers. `scripts/generate-sync` writes admin, schedules and sync."""

from headrace.sync.admin import SyncAdmin
from headrace.sync.portal import Portal
from headrace.sync.schedules import SyncSchedules
from headrace.sync.sync import Sync

__all__ = ["Portal", "Sync", "SyncAdmin", "SyncSchedules"]
