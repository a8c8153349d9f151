"""The jobs of a queue, or the events of a group, by state, with a search."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from headrace.admin import GroupInfo, QueueInfo
from headrace.admin.place import Place
from headrace.admin.steering.cleaning import CLEANABLE
from headrace.app import App
from headrace.dashboard.site import Content

from .declared_settings import DeclaredSettings, declared_settings
from .search import STATES, Search, find

#: The fields of a query that are a search.
SEARCHED: Final = ("state", "text", "since", "until", "waiting_for")


async def queue_page(app: App, request: Request) -> Content:
    place = Place(request.path_params["queue"])
    queue = next((each for each in await app.admin.queues() if each.name == place.queue), None)
    return await _page(app, request, place, queue)


async def group_page(app: App, request: Request) -> Content:
    place = Place(None, request.path_params["topic"], request.path_params["group"])
    groups = [
        group for topic in await app.admin.topics() if topic.name == place.topic for group in topic.groups
    ]
    group = next((each for each in groups if each.group == place.group), None)
    return await _page(app, request, place, group)


async def _page(app: App, request: Request, place: Place, counts: QueueInfo | GroupInfo | None) -> Content:
    query = request.query_params
    search = Search(
        query.get("state", ""),
        query.get("text", "").strip(),
        query.get("since", "").strip(),
        query.get("until", "").strip(),
        query.get("waiting_for", "").strip() if place.queue else "",
    )
    cursor = query.get("cursor") or None
    found = await find(app, place, search, cursor)
    return Content(
        "queue.html",
        {
            "place": place,
            "counts": counts,
            "settings": await declared_settings(app, place.queue) if place.queue else DeclaredSettings(),
            "found": found,
            "first": cursor is None,
            "search": search,
            "asked": {name: query[name] for name in SEARCHED if query.get(name)},
            "states": STATES,
            "cleanable": CLEANABLE,
        },
        place.words[0].upper() + place.words[1:],
        404 if counts is None else 200,
        # A search reads many jobs: it is made once, and not every second.
        live=search.plain,
    )
