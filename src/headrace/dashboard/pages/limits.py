"""The limits: all of them, and one with the form that changes it. Paused tasks are listed beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request

from headrace.admin import LimitInfo
from headrace.app import App
from headrace.core.limits.paused_tasks import PAUSED
from headrace.dashboard.site import Content
from headrace.jobs.task import Task

#: Limits, paused tasks, and users of a limit that a page shows.
MOST: Final = 200
MOST_USERS: Final = 20


class LimitUser(msgspec.Struct, frozen=True):
    """A task or a queue whose jobs a limit counts. `queue` is empty when this app does not know it. `by`:
    each value of a parameter has a budget of its own."""

    kind: str
    name: str
    queue: str = ""
    by: bool = False


class ShownLimit(msgspec.Struct, frozen=True):
    info: LimitInfo
    users: tuple[LimitUser, ...] = ()

    @property
    def by_key(self) -> bool:
        return self.info.keys > 0 or any(user.by for user in self.users)

    @property
    def queues(self) -> list[str]:
        """The queues of the tasks that use it, as far as this app knows them."""
        return sorted({user.queue for user in self.users if user.queue})


async def list_page(app: App, request: Request) -> Content:
    text = request.query_params.get("text", "").strip()
    found = [each for each in await app.admin.limits() if text.casefold() in each.name.casefold()]
    limits = [each for each in found if not each.name.startswith(PAUSED)]
    paused = [each.name.removeprefix(PAUSED) for each in found if each.name.startswith(PAUSED)]
    users = _users(app)
    values = {
        "limits": [_shown(each, users) for each in limits[:MOST]],
        "more": max(0, len(limits) - MOST),
        "paused": paused[:MOST],
        "more_paused": max(0, len(paused) - MOST),
        "text": text,
        "most_users": MOST_USERS,
    }
    return Content("limits.html", values, "Limits")


async def limit_page(app: App, request: Request) -> Content:
    name = request.query_params.get("name", "")
    info = next((each for each in await app.admin.limits() if each.name == name), None)
    if info is None or name.startswith(PAUSED):
        return Content("unknown_limit.html", {"name": name}, "Unknown limit", 404)
    limit = _shown(info, _users(app))
    queues = limit.queues or await _filled_queues(app)
    values = {"limit": limit, "queues": queues[:MOST_USERS], "most_users": MOST_USERS}
    return Content("limit.html", values, f"Limit {name}")


async def _filled_queues(app: App) -> list[str]:
    """Where jobs of a limit may wait whose tasks this app does not have."""
    return [queue.name for queue in await app.admin.queues() if queue.queued]


async def paused_tasks(app: App) -> set[str]:
    """The names of the tasks that are paused."""
    names = [each.name for each in await app.admin.limits(counted=False)]
    return {name.removeprefix(PAUSED) for name in names if name.startswith(PAUSED)}


def task_limits(task: Task[Any, Any]) -> list[tuple[str, LimitUser]]:
    """The limits that a task declares, by name."""
    name, options = task.name, task.options
    found = [
        (limit.name or f"task:{name}", LimitUser("task", name, options.queue, limit.by is not None))
        for limit in options.limits
    ]
    if options.max_running is not None or options.rate_limit is not None:
        found.append((f"task:{name}", LimitUser("task", name, options.queue)))
    return found


def _shown(info: LimitInfo, users: Mapping[str, list[LimitUser]]) -> ShownLimit:
    return ShownLimit(info, tuple(users.get(info.name) or _named_user(info.name)))


def _named_user(name: str) -> list[LimitUser]:
    """The user of a limit that this app does not declare, by the limit's name."""
    kind, _, owner = name.partition(":")
    if kind not in ("task", "queue") or not owner:
        return []
    return [LimitUser(kind, owner, owner if kind == "queue" else "")]


def _users(app: App) -> Mapping[str, list[LimitUser]]:
    """By the name of the limit: the tasks and queues of this app that declare it."""
    users: defaultdict[str, list[LimitUser]] = defaultdict(list)
    for name, user in _declared_users(app):
        users[name].append(user)
    return users


def _declared_users(app: App) -> Iterator[tuple[str, LimitUser]]:
    for task in app.tasks.values():
        yield from task_limits(task)
    for queue in app.declared_queues.values():
        for limit in queue.limits:
            by = limit.by is not None
            yield limit.name or f"queue:{queue.name}", LimitUser("queue", queue.name, queue.name, by)
