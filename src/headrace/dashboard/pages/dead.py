"""Dead letters, grouped by task and error. A user replays or discards single ones, a group, or all."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.core.messages.outcome import DeadReason
from headrace.dashboard.links import place_in
from headrace.dashboard.site import Content

from .error_groups import DeadSearch, error_groups


async def page(app: App, request: Request) -> Content:
    query = request.query_params
    search = DeadSearch(place_in(query.get), query.get("task") or None, query.get("reason") or None)
    cursor = query.get("cursor") or None
    found = await error_groups(app, search, cursor)
    return Content(
        "dead.html",
        {
            "error_groups": found.groups,
            "searched": found.searched,
            "cursor": found.cursor,
            "first": cursor is None,
            "search": search,
            "reasons": list(DeadReason),
        },
        "Dead letters",
    )
