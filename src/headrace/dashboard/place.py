"""Where a job or an event is: a queue, or a group of a topic; as options, as a link, and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from headrace.core.info import JobInfo
from headrace.core.record import DeadLetter


class Place(msgspec.Struct, frozen=True):
    queue: str | None = None
    topic: str | None = None
    group: str | None = None

    def __str__(self) -> str:
        return self.queue or "/".join(filter(None, (self.topic, self.group)))

    @property
    def options(self) -> dict[str, Any]:
        """What the verbs of the admin take, and fields of a form."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}

    @property
    def words(self) -> str:
        if self.topic is None:
            return f"Queue {self.queue}"
        return f"Group {self.group} of {self.topic}"

    @property
    def link(self) -> str:
        """Its page, below the root."""
        if self.topic is None:
            return f"/queues/{_part(self.queue)}"
        return f"/topics/{_part(self.topic)}/{_part(self.group)}"

    @property
    def dead_link(self) -> str:
        return f"/dead?{query(self.options)}"

    def job_link(self, id: str) -> str:
        """The page of a job or an event. In the query, since an id may be `..` or hold slashes."""
        return f"/job?{query({'id': id, **self.options})}"


def place_of(found: JobInfo | DeadLetter) -> Place:
    return Place(None if found.topic else found.queue, found.topic, found.group)


def place_in(get: Callable[[str], str | None]) -> Place:
    """From the fields of a query or a form."""
    return Place(get("queue") or None, get("topic") or None, get("group") or None)


def query(fields: Mapping[str, str]) -> str:
    """For an address. A half of a character, which no encoding has, is replaced."""
    return urlencode(fields, errors="replace")


def _part(name: str | None) -> str:
    return quote(name or "", safe="", errors="replace")
