"""Topics, with their groups and the lag of each."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.core.values.times import TIME_FORMS
from headrace.dashboard.site import Content


async def page(app: App, request: Request) -> Content:
    return Content(
        "topics.html", {"topics": await app.admin.topics(), "forms": f"{TIME_FORMS} UTC"}, "Topics"
    )
