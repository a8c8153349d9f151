"""Dead letters, grouped by task and error, to be replayed or discarded singly, by kind or all."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.core.outcome import DeadReason
from headrace.dashboard.kinds import Chosen, kinds_of
from headrace.dashboard.place import place_in
from headrace.dashboard.site import Content


async def page(app: App, request: Request) -> Content:
    query = request.query_params
    chosen = Chosen(place_in(query.get), query.get("task") or None, query.get("reason") or None)
    cursor = query.get("cursor") or None
    found = await kinds_of(app, chosen, cursor)
    return Content(
        "dead.html",
        {
            "kinds": found.kinds,
            "looked": found.looked,
            "cursor": found.cursor,
            "first": cursor is None,
            "given": chosen,
            "reasons": list(DeadReason),
        },
        "Dead letters",
    )
