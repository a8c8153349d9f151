"""The tasks of Django that this process knows, by the dotted path of their function."""

from __future__ import annotations

from .framework import DjangoTask

#: Filled by each backend. A job names its task by this path, and no path of a job is ever imported.
known_tasks: dict[str, DjangoTask] = {}


def remember(task: DjangoTask) -> None:
    """Know a task from now on. A copy with other options, by `using`, is the same task."""
    known = known_tasks.get(task.module_path)
    if known is None or known.func is not task.func:
        known_tasks[task.module_path] = task
