"""Links to the pages of queues, groups, jobs, limits and dead letters, below the root of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode

from headrace.admin.place import Place


def place_link(place: Place) -> str:
    """The page of a queue or a group."""
    if place.topic is None:
        return f"/queues/{_part(place.queue)}"
    return f"/topics/{_part(place.topic)}/{_part(place.group)}"


def dead_link(place: Place) -> str:
    return f"/dead?{query(place.options)}"


def job_link(place: Place, id: str) -> str:
    """The page of a job or an event. The id is in the query, because it may be `..` or hold slashes."""
    return f"/job?{query({'id': id, **place.options})}"


def limit_link(name: str) -> str:
    return f"/limit?{query({'name': name})}"


def waiting_link(limit: str, queue: str) -> str:
    """The jobs of a queue that a limit holds back."""
    return f"{place_link(Place(queue))}?{query({'state': 'queued', 'waiting_for': limit})}"


def place_in(get: Callable[[str], str | None]) -> Place:
    """The place in the fields of a query or a form."""
    return Place(get("queue") or None, get("topic") or None, get("group") or None)


def query(fields: Mapping[str, str]) -> str:
    """For a URL. A lone surrogate, which no encoding has, is replaced."""
    return urlencode(fields, errors="replace")


def _part(name: str | None) -> str:
    return quote(name or "", safe="", errors="replace")
