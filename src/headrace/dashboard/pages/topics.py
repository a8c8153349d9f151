"""Topics, with the groups that read them and how far each has come."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.core.times import TIME_FORMS
from headrace.dashboard.site import Content


async def page(app: App, request: Request) -> Content:
    return Content(
        "topics.html", {"topics": await app.admin.topics(), "forms": f"{TIME_FORMS} UTC"}, "Topics"
    )
