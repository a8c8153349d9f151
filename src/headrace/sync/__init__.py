"""The verbs of the app for synchronous callers. `scripts/generate-sync` writes admin, schedules and sync."""

from headrace.engine.app_loop.portal import Portal, Stoppable

from .admin import SyncAdmin
from .bridge import PublishesMany
from .schedules import SyncSchedules
from .sync import Sync

__all__ = ["Portal", "PublishesMany", "Stoppable", "Sync", "SyncAdmin", "SyncSchedules"]
