"""What the app declares of a queue: its settings in words, its limits, and the tasks whose jobs it gets."""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.app import App
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.core.values.times import span
from headrace.engine.declared.queue import Queue

from .limits import paused_tasks, task_limits

#: Tasks that a page shows.
MOST: Final = 100


class ShownTask(msgspec.Struct, frozen=True):
    """`traits`: how its jobs are kept in order or share a queue, in words."""

    name: str
    paused: bool
    limits: list[str]
    traits: list[str]


class DeclaredSettings(msgspec.Struct, frozen=True):
    """`words`: the settings. `more_tasks` are not listed."""

    words: list[str] = []
    limits: list[str] = []
    tasks: list[ShownTask] = []
    more_tasks: int = 0

    @property
    def paused(self) -> int:
        return sum(task.paused for task in self.tasks)


async def declared_settings(app: App, name: str) -> DeclaredSettings:
    queue = app.declared_queues.get(name)
    names = sorted(task.name for task in app.tasks.values() if task.options.queue == name)
    paused = await paused_tasks(app)
    return DeclaredSettings(
        _words(queue) if queue else [],
        [limit.name or f"queue:{name}" for limit in queue.limits] if queue else [],
        [_shown_task(app, each, paused) for each in names[:MOST]],
        max(0, len(names) - MOST),
    )


def _shown_task(app: App, name: str, paused: set[str]) -> ShownTask:
    options = app.tasks[name].options
    traits = {
        "tenants take turns": options.tenant_by is not None,
        "one at a time for each order key": options.ordered_by is not None,
    }
    limits = [limit for limit, _ in task_limits(app.tasks[name])]
    return ShownTask(name, name in paused, limits, [each for each, holds in traits.items() if holds])


def _words(queue: Queue) -> list[str]:
    kept = None if queue.dead_retention is None else span(queue.dead_retention)
    words = {
        "at most {:,} slots of a worker": queue.slots,
        "at most {:,} jobs may wait": queue.queue_limit,
        "{}": None if queue.retry is None else _retry_text(queue.retry),
        "dead at crash {}": queue.crash_limit,
        "a death calls {}": queue.on_dead,
        "dead letters are kept for {}": kept,
        "at most {:,} dead letters are kept": queue.dead_limit,
    }
    return [text.format(value) for text, value in words.items() if value is not None]


def _retry_text(retry: RetryPolicy | RetryFunction) -> str:
    if not isinstance(retry, RetryPolicy):
        return "retries as a function of the code says"
    if not retry.max_retries:
        return "no retries"
    count = f"{retry.max_retries:,} {'retry' if retry.max_retries == 1 else 'retries'}"
    if retry.kind == "fixed":
        return f"{count}, {span(retry.base)} after a failure"
    return f"{count}, {span(retry.base)} after the first failure, later ones up to {span(retry.cap)}"
