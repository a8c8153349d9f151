"""Schedules, with their next and last runs."""

from __future__ import annotations

from starlette.requests import Request

from headrace.app import App
from headrace.dashboard.site import Content


async def page(app: App, request: Request) -> Content:
    schedules = sorted(await app.schedules.list(), key=lambda each: each.name)
    return Content("schedules.html", {"schedules": schedules}, "Schedules")
