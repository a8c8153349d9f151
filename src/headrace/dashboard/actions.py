"""What a button does: one verb of `app.admin` or `app.schedules`; then back to the page, and say so."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from headrace.app import App
from headrace.core.errors import ConfigurationError, HeadraceError

from .access import root_of
from .forms import Fields, fields_of
from .site import Site

#: From the form to what was done, in a few words.
Action = Callable[[App, Fields], Awaitable[str]]


async def act(request: Request) -> Response:
    site: Site = request.app.state.site
    action = ACTIONS.get(request.path_params["verb"])
    if action is None:
        return PlainTextResponse("there is no such action", 404)
    fields = Fields([])
    try:
        fields = await fields_of(request)
        said = await action(site.app, fields)
    except HeadraceError as error:
        said = f"That failed: {error}"
    return RedirectResponse(_back(request, fields.get("back", "/"), said), 303)


def _back(request: Request, place: str, said: str) -> str:
    """The page that the form was on, which is one of ours, with what was done."""
    parts = urlsplit(place)
    path = parts.path if parts.path.startswith("/") and not parts.path.startswith("//") else "/"
    mark = "&" if parts.query else ""
    return f"{root_of(request)}{path}?{parts.query}{mark}{urlencode({'said': said})}"


async def _pause(app: App, fields: Fields) -> str:
    await app.admin.pause(fields.get("queue"))
    return f"{fields.get('queue')} is paused: no more jobs are started"


async def _resume(app: App, fields: Fields) -> str:
    await app.admin.resume(fields.get("queue"))
    return f"{fields.get('queue')} goes on"


async def _purge(app: App, fields: Fields) -> str:
    count = await app.admin.purge(fields.get("queue"))
    return f"{count:,} jobs of {fields.get('queue')} were cancelled"


async def _cancel(app: App, fields: Fields) -> str:
    ids = fields.all("id")
    count = await app.admin.cancel(ids, queue=fields.get("queue") or None)
    return f"{count:,} of {len(ids):,} cancelled" if len(ids) > 1 else _did(count, "cancelled")


async def _retry(app: App, fields: Fields) -> str:
    done = await app.admin.retry_now(fields.get("id"), queue=fields.get("queue") or None)
    return _did(done, "queued")


async def _edit(app: App, fields: Fields) -> str:
    args, kwargs = _json(fields, "args", list), _json(fields, "kwargs", dict)
    id, queue = fields.get("id"), fields.get("queue") or None
    if not await app.admin.edit(id, args=args, kwargs=kwargs, queue=queue):
        return "Only a scheduled, retrying or dead job can be edited"
    if fields.get("then") == "retry":
        return _did(await app.admin.retry_now(id, queue=queue), "edited and queued")
    return "The arguments were changed"


async def _replay(app: App, fields: Fields) -> str:
    replayed = await app.admin.replay(**_chosen(fields))
    more = f", {len(replayed.duplicates)} are duplicates by now" if replayed.duplicates else ""
    return f"{int(replayed):,} replayed{more}"


async def _discard(app: App, fields: Fields) -> str:
    return f"{await app.admin.discard(**_chosen(fields)):,} discarded"


async def _schedule_run(app: App, fields: Fields) -> str:
    job = await app.schedules.run_now(fields.get("name"))
    return f"Started as job {job.id}"


async def _schedule_pause(app: App, fields: Fields) -> str:
    await app.schedules.pause(fields.get("name"))
    return f"{fields.get('name')} is paused"


async def _schedule_resume(app: App, fields: Fields) -> str:
    await app.schedules.resume(fields.get("name"))
    return f"{fields.get('name')} goes on"


async def _group_reset(app: App, fields: Fields) -> str:
    topic, group = fields.get("topic"), fields.get("group")
    await app.admin.reset_group(topic, group, to=fields.get("to") or "beginning")
    return f"{group} reads {topic} from {fields.get('to') or 'beginning'}"


async def _group_remove(app: App, fields: Fields) -> str:
    await app.admin.remove_group(fields.get("topic"), fields.get("group"))
    return f"{fields.get('group')} of {fields.get('topic')} is removed"


def _did(done: object, what: str) -> str:
    return what.capitalize() if done else "Nothing was done: it is over, or running, or was never there"


def _chosen(fields: Fields) -> dict[str, Any]:
    """Which dead letters: those that are ticked, else those that the form names."""
    ids = fields.all("id")
    if ids:
        return {"ids": ids}
    names = ("queue", "topic", "group", "task", "reason")
    return {name: fields.get(name) for name in names if fields.get(name)}


def _json(fields: Fields, name: str, wanted: type) -> Any:
    try:
        value = json.loads(fields.get(name) or ("[]" if wanted is list else "{}"))
    except ValueError as error:
        raise ConfigurationError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, wanted):
        raise ConfigurationError(f"{name} must be a JSON {'array' if wanted is list else 'object'}")
    return value


ACTIONS: dict[str, Action] = {
    "pause": _pause,
    "resume": _resume,
    "purge": _purge,
    "cancel": _cancel,
    "retry": _retry,
    "edit": _edit,
    "replay": _replay,
    "discard": _discard,
    "schedule-run": _schedule_run,
    "schedule-pause": _schedule_pause,
    "schedule-resume": _schedule_resume,
    "group-reset": _group_reset,
    "group-remove": _group_remove,
}
