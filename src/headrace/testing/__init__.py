"""Tools for users' own tests: an app on a private memory store, with a clock that can be moved.

`memory(app)` gives a `Kit` for an app and does not touch its real store; `run_inline(app)` runs every job
where it is enqueued. `headrace.testing.plugin` has pytest fixtures for both.
"""

from .clock import Clock
from .enqueued import EnqueuedJob
from .kit import DrainOptions, Kit, SyncKit
from .modes import memory, run_inline

__all__ = ["Clock", "DrainOptions", "EnqueuedJob", "Kit", "SyncKit", "memory", "run_inline"]
