"""What a button does: one verb of `app.admin` or `app.schedules`; then back to the page, and say so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from headrace.app import App
from headrace.core.errors import ConfigurationError, HeadraceError
from headrace.core.times import parse_start

from .access import root_of
from .editing import Draft, read, why_not
from .forms import Fields, fields_of
from .kinds import Chosen, ids_of_kind
from .pages import job
from .place import place_in
from .said import say
from .site import Site
from .text import exact

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
        if action is _edit and (again := await _form_again(request, fields, str(error))):
            return again
    response = RedirectResponse(_back(request, fields.get("back", "/")), 303)
    say(response, request, said)
    return response


async def _form_again(request: Request, fields: Fields, problem: str) -> Response | None:
    """The page with the form as it was filled in, and what is wrong; None: there is no form any more."""
    site: Site = request.app.state.site
    id, place = fields.get("id"), place_in(fields.get)
    draft = Draft(fields.get("args"), fields.get("kwargs"), problem)
    content = await site.content(lambda app, _: job.content(app, id, place, draft), request)
    if not content.values.get("edit"):
        return None
    here = {"here": "/job", "address": place.job_link(id)}
    return site.response(msgspec.structs.replace(content, values={**content.values, **here}), request)


def _back(request: Request, place: str) -> str:
    """The page that the form was on, which is one of ours."""
    try:
        parts = urlsplit(place)
    except ValueError:
        return f"{root_of(request)}/"
    path = quote(unquote(parts.path), errors="replace")
    if parts.netloc or parts.scheme or not path.startswith("/") or path.startswith("//"):
        return f"{root_of(request)}/"
    return f"{root_of(request)}{path}" + (f"?{parts.query}" if parts.query else "")


# --- queues ----------------------------------------------------------------------------------------------


async def _pause(app: App, fields: Fields) -> str:
    await app.admin.pause(fields.get("queue"))
    return f"{fields.get('queue')} is paused: no more jobs are started"


async def _resume(app: App, fields: Fields) -> str:
    await app.admin.resume(fields.get("queue"))
    return f"{fields.get('queue')} goes on"


async def _purge(app: App, fields: Fields) -> str:
    return f"{_jobs(await app.admin.purge(fields.get('queue')))} of {fields.get('queue')} cancelled"


# --- one job ---------------------------------------------------------------------------------------------


async def _cancel(app: App, fields: Fields) -> str:
    count = await app.admin.cancel([fields.get("id")], **place_in(fields.get).options)
    return "Cancelled, or its worker is told" if count else "Nothing was done: it is over, or was never there"


async def _retry(app: App, fields: Fields) -> str:
    return _queued(await app.admin.retry_now(fields.get("id"), **place_in(fields.get).options))


async def _edit(app: App, fields: Fields) -> str:
    args, kwargs = read(fields.get("args"), "args", list), read(fields.get("kwargs"), "kwargs", dict)
    id, queue = fields.get("id"), fields.get("queue") or None
    # What the form was made from is looked at again: the page may be old, and secrets must survive.
    hindrance = why_not(await app.admin.contents(id, queue=queue))
    if hindrance:
        raise ConfigurationError(hindrance)
    if not await app.admin.edit(id, args=args, kwargs=kwargs, queue=queue):
        return "Nothing was done: only a scheduled, retrying or dead job can be edited"
    if fields.get("then") != "retry":
        return "The arguments were changed"
    return f"The arguments were changed. {_queued(await app.admin.retry_now(id, queue=queue))}"


def _queued(done: bool) -> str:
    return "Queued" if done else "Nothing was queued: it is running, or over, or was never there"


# --- dead letters ----------------------------------------------------------------------------------------


async def _replay(app: App, fields: Fields) -> str:
    total, duplicates = 0, 0
    for chosen in await _chosen(app, fields):
        replayed = await app.admin.replay(**chosen)
        total += replayed
        duplicates += len(replayed.duplicates)
    more = f"; {duplicates:,} stay, since another job holds their unique key by now" if duplicates else ""
    return f"{total:,} replayed{more}"


async def _discard(app: App, fields: Fields) -> str:
    total = 0
    for chosen in await _chosen(app, fields):
        total += await app.admin.discard(**chosen)
    return f"{total:,} discarded"


async def _chosen(app: App, fields: Fields) -> list[dict[str, Any]]:
    """Which dead letters: those that are ticked, those of a kind, those that fit, or all of them."""
    place = place_in(fields.get)
    match fields.get("which"):
        case "ticked":
            return [{"ids": fields.all("id"), **place.options}]
        case "kind":
            chosen = Chosen(place, fields.get("task") or None, fields.get("reason") or None)
            return [{"ids": await ids_of_kind(app, chosen, fields.get("mark")), **place.options}]
        case "fitting":
            fitting = Chosen(place, fields.get("task") or None, fields.get("reason") or None).options
            return [fitting] if fitting else await _everywhere(app)
        case _:
            raise ConfigurationError("say which dead letters")


async def _everywhere(app: App) -> list[dict[str, Any]]:
    queues = [{"queue": queue.name} for queue in await app.admin.queues() if queue.dead]
    topics = await app.admin.topics()
    return queues + [{"topic": each.name} for each in topics if any(group.dead for group in each.groups)]


# --- schedules -------------------------------------------------------------------------------------------


async def _schedule_run(app: App, fields: Fields) -> str:
    job = await app.schedules.run_now(fields.get("name"))
    return f"Started as job {job.id}"


async def _schedule_pause(app: App, fields: Fields) -> str:
    await app.schedules.pause(fields.get("name"))
    return f"{fields.get('name')} is paused"


async def _schedule_resume(app: App, fields: Fields) -> str:
    await app.schedules.resume(fields.get("name"))
    return f"{fields.get('name')} goes on"


# --- groups of topics ------------------------------------------------------------------------------------


async def _group_pause(app: App, fields: Fields) -> str:
    await app.admin.pause_group(fields.get("topic"), fields.get("group"))
    return f"{fields.get('group')} of {fields.get('topic')} is paused: it is handed no more events"


async def _group_resume(app: App, fields: Fields) -> str:
    await app.admin.resume_group(fields.get("topic"), fields.get("group"))
    return f"{fields.get('group')} of {fields.get('topic')} goes on"


async def _group_reset(app: App, fields: Fields) -> str:
    topic, group = fields.get("topic"), fields.get("group")
    start = parse_start(fields.get("to"), UTC)
    await app.admin.reset_group(topic, group, to=start)
    return f"{group} reads {topic} from {_spoken(start)}"


async def _group_remove(app: App, fields: Fields) -> str:
    done = await app.admin.remove_group(fields.get("topic"), fields.get("group"))
    name = f"{fields.get('group')} of {fields.get('topic')}"
    return f"{name} is removed" if done else f"Nothing was done: there is no {name}"


def _spoken(start: str | datetime) -> str:
    if isinstance(start, datetime):
        return f"{exact(start)} on"
    named = {"new": "what comes next", "beginning": "the beginning of what is kept"}
    return named.get(start, f"event {start} on")


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


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
    "group-pause": _group_pause,
    "group-resume": _group_resume,
    "group-reset": _group_reset,
    "group-remove": _group_remove,
}
