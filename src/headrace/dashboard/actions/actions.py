"""What each button does: it calls one method of `app.admin` or `app.schedules`, goes back to the page and
shows a message."""

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
from headrace.core.values.times import parse_span, parse_start
from headrace.core.values.whole_numbers import counted
from headrace.dashboard.access.access import root_of
from headrace.dashboard.links import job_link, place_in
from headrace.dashboard.pages import job
from headrace.dashboard.pages.editing import ArgumentsForm, parse_json, why_not_editable
from headrace.dashboard.pages.error_groups import DeadSearch, ids_of_group
from headrace.dashboard.site import Site
from headrace.dashboard.text import exact

from .flash import set_flash
from .forms import FormFields, fields_of

#: Digits of a number in a form.
LONGEST_NUMBER = 12

#: Takes the form, does something, and answers what was done, in a few words.
ButtonAction = Callable[[App, FormFields], Awaitable[str]]


async def act(request: Request) -> Response:
    site: Site = request.app.state.site
    action = ACTIONS.get(request.path_params["verb"])
    if action is None:
        return PlainTextResponse("there is no action of this name", 404)
    fields = FormFields([])
    try:
        fields = await fields_of(request)
        message = await action(site.app, fields)
    except HeadraceError as error:
        message = f"Failed: {error}"
        if action is _edit and (again := await _form_again(request, fields, str(error))):
            return again
    response = RedirectResponse(_back(request, fields.get("back", "/")), 303)
    set_flash(response, request, message)
    return response


async def _form_again(request: Request, fields: FormFields, problem: str) -> Response | None:
    """The page with the form as the user filled it in, and what is wrong. None: the job has no form now."""
    site: Site = request.app.state.site
    id, place = fields.get("id"), place_in(fields.get)
    form = ArgumentsForm(fields.get("args"), fields.get("kwargs"), problem)
    content = await site.content(lambda app, _: job.content(app, id, place, form), request)
    if not content.values.get("edit"):
        return None
    here = {"here": "/job", "address": job_link(place, id)}
    return site.response(msgspec.structs.replace(content, values={**content.values, **here}), request)


def _back(request: Request, place: str) -> str:
    """The page that the form was on. It is always one of ours."""
    try:
        parts = urlsplit(place)
    except ValueError:
        return f"{root_of(request)}/"
    path = quote(unquote(parts.path), errors="replace")
    if parts.netloc or parts.scheme or not path.startswith("/") or path.startswith("//"):
        return f"{root_of(request)}/"
    return f"{root_of(request)}{path}" + (f"?{parts.query}" if parts.query else "")


# --- queues ----------------------------------------------------------------------------------------------


async def _pause(app: App, fields: FormFields) -> str:
    await app.admin.pause(fields.get("queue"))
    return f"{fields.get('queue')} is paused: no more jobs start"


async def _resume(app: App, fields: FormFields) -> str:
    await app.admin.resume(fields.get("queue"))
    return f"{fields.get('queue')} is resumed"


async def _purge(app: App, fields: FormFields) -> str:
    return f"{counted(await app.admin.purge(fields.get('queue')), 'job')} of {fields.get('queue')} cancelled"


async def _clean(app: App, fields: FormFields) -> str:
    queue, state = fields.get("queue"), fields.get("state")
    if not state:
        raise ConfigurationError("name the state of the jobs to remove")
    older_than = parse_span(fields.get("older_than")) if fields.get("older_than").strip() else 0
    count = await app.admin.clean(queue, state=state, older_than=older_than)
    return f"{counted(count, f'{state} job')} of {queue} removed"


async def _remove_queue(app: App, fields: FormFields) -> str:
    queue = fields.get("queue")
    removed = await app.admin.remove_queue(queue)
    return f"{queue} is removed" if removed else f"Nothing was done: there is no queue {queue}"


async def _release_key(app: App, fields: FormFields) -> str:
    released = await app.admin.release_key(fields.get("queue"), fields.get("key"))
    return "The unique key is free" if released else "Nothing was done: no job holds this unique key"


async def _task_pause(app: App, fields: FormFields) -> str:
    await app.admin.pause(task=fields.get("task"))
    return f"The task {fields.get('task')} is paused: within 3 seconds no more of its jobs start"


async def _task_resume(app: App, fields: FormFields) -> str:
    await app.admin.resume(task=fields.get("task"))
    return f"The task {fields.get('task')} is resumed"


# --- limits ----------------------------------------------------------------------------------------------


async def _limit_set(app: App, fields: FormFields) -> str:
    name, rate = fields.get("name"), fields.get("rate").strip() or None
    figures = {each: _whole_number(fields, each) for each in ("burst", "max_running")}
    if rate is None and not any(each is not None for each in figures.values()):
        return "Nothing was changed: fill in at least one field"
    await app.admin.set_limit(name, rate=rate, **figures)
    return f"The limit {name} has new figures, until you clear them"


async def _limit_clear(app: App, fields: FormFields) -> str:
    await app.admin.clear_limit(fields.get("name"))
    return f"The limit {fields.get('name')} has the figures that the code declares"


def _whole_number(fields: FormFields, name: str) -> int | None:
    text = fields.get(name).strip()
    if text and not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise ConfigurationError(f"{name} is a whole number, such as 10, not {text[:50]!r}")
    return int(text) if text else None


# --- one job ---------------------------------------------------------------------------------------------


async def _cancel(app: App, fields: FormFields) -> str:
    count = await app.admin.cancel([fields.get("id")], **place_in(fields.get).options)
    return (
        "Cancelled. A running job stops when its worker receives the request"
        if count
        else "Nothing was done: it has ended, or it never existed"
    )


async def _retry(app: App, fields: FormFields) -> str:
    return _queued(await app.admin.retry_now(fields.get("id"), **place_in(fields.get).options))


async def _edit(app: App, fields: FormFields) -> str:
    args, kwargs = (
        parse_json(fields.get("args"), "args", list),
        parse_json(fields.get("kwargs"), "kwargs", dict),
    )
    id, queue = fields.get("id"), fields.get("queue") or None
    # The stored arguments are checked again: the page may be old, and secrets must not be overwritten.
    reason = why_not_editable(await app.admin.contents(id, queue=queue))
    if reason:
        raise ConfigurationError(reason)
    if not await app.admin.edit(id, args=args, kwargs=kwargs, queue=queue):
        return "Nothing was done: only a scheduled, retrying or dead job can be edited"
    if fields.get("then") != "retry":
        return "The arguments were changed"
    return f"The arguments were changed. {_queued(await app.admin.retry_now(id, queue=queue))}"


def _queued(done: bool) -> str:
    return "Queued" if done else "Nothing was queued: it is running, or it has ended, or it never existed"


# --- dead letters ----------------------------------------------------------------------------------------


async def _replay(app: App, fields: FormFields) -> str:
    total, duplicates = 0, 0
    for selected in await _selected(app, fields):
        replayed = await app.admin.replay(**selected)
        total += replayed
        duplicates += len(replayed.duplicates)
    more = f"; {duplicates:,} stay dead, because another job holds their unique key" if duplicates else ""
    return f"{total:,} replayed{more}"


async def _discard(app: App, fields: FormFields) -> str:
    total = 0
    for selected in await _selected(app, fields):
        total += await app.admin.discard(**selected)
    return f"{total:,} discarded"


async def _selected(app: App, fields: FormFields) -> list[dict[str, Any]]:
    """The dead letters that are selected, those of an error group, those that match, or all."""
    place = place_in(fields.get)
    match fields.get("which"):
        case "selected":
            return [{"ids": fields.all("id"), **place.options}]
        case "group":
            search = DeadSearch(place, fields.get("task") or None, fields.get("reason") or None)
            return [{"ids": await ids_of_group(app, search, fields.get("error_group")), **place.options}]
        case "matching":
            matching = DeadSearch(place, fields.get("task") or None, fields.get("reason") or None).options
            return [matching] if matching else await _everywhere(app)
        case _:
            raise ConfigurationError("name the dead letters")


async def _everywhere(app: App) -> list[dict[str, Any]]:
    queues = [{"queue": queue.name} for queue in await app.admin.queues() if queue.dead]
    topics = await app.admin.topics()
    return queues + [{"topic": each.name} for each in topics if any(group.dead for group in each.groups)]


# --- schedules -------------------------------------------------------------------------------------------


async def _schedule_run(app: App, fields: FormFields) -> str:
    job = await app.schedules.run_now(fields.get("name"))
    return f"Started as job {job.id}"


async def _schedule_pause(app: App, fields: FormFields) -> str:
    await app.schedules.pause(fields.get("name"))
    return f"{fields.get('name')} is paused"


async def _schedule_resume(app: App, fields: FormFields) -> str:
    await app.schedules.resume(fields.get("name"))
    return f"{fields.get('name')} is resumed"


# --- groups of topics ------------------------------------------------------------------------------------


async def _group_pause(app: App, fields: FormFields) -> str:
    await app.admin.pause_group(fields.get("topic"), fields.get("group"))
    return f"{fields.get('group')} of {fields.get('topic')} is paused: it gets no more events"


async def _group_resume(app: App, fields: FormFields) -> str:
    await app.admin.resume_group(fields.get("topic"), fields.get("group"))
    return f"{fields.get('group')} of {fields.get('topic')} is resumed"


async def _group_reset(app: App, fields: FormFields) -> str:
    topic, group = fields.get("topic"), fields.get("group")
    start = parse_start(fields.get("to"), UTC)
    await app.admin.reset_group(topic, group, to=start)
    return f"{group} reads {topic} from {_start_text(start)}"


async def _group_remove(app: App, fields: FormFields) -> str:
    done = await app.admin.remove_group(fields.get("topic"), fields.get("group"))
    name = f"{fields.get('group')} of {fields.get('topic')}"
    return f"{name} is removed" if done else f"Nothing was done: there is no {name}"


def _start_text(start: str | datetime) -> str:
    if isinstance(start, datetime):
        return f"{exact(start)} on"
    named = {"new": "new events", "beginning": "the beginning"}
    return named.get(start, f"event {start} on")


ACTIONS: dict[str, ButtonAction] = {
    "pause": _pause,
    "resume": _resume,
    "purge": _purge,
    "task-pause": _task_pause,
    "task-resume": _task_resume,
    "limit-set": _limit_set,
    "limit-clear": _limit_clear,
    "clean": _clean,
    "remove-queue": _remove_queue,
    "release-key": _release_key,
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
