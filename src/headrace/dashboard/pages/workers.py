"""Workers, and what each is running now."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.core.record import moment
from headrace.dashboard.site import Content

from .overview import shown_worker


async def page(app: App, request: Request) -> Content:
    workers = sorted(await app.admin.workers(), key=lambda each: each.consumer)
    return Content(
        "workers.html",
        {"workers": [shown_worker(each) for each in workers], "moment": moment},
        "Workers",
    )
