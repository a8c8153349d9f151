"""Dead letters, grouped by task and error, to be replayed or discarded one by one or all together."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from headrace.app import App
from headrace.core.record import DeadLetter
from headrace.dashboard.site import Content

#: Letters that are looked at for one page, and shown of each kind.
SCAN = 2000
STEP = 500
SAMPLES = 20

FILTERS = ("queue", "topic", "group", "task", "reason")


class Kind(msgspec.Struct):
    """Letters of one task that died of one error."""

    task: str
    place: str
    reason: str
    error_type: str
    error: str
    count: int = 0
    letters: list[DeadLetter] = []


async def page(app: App, request: Request) -> Content:
    given = {name: request.query_params.get(name) or None for name in FILTERS}
    cursor = request.query_params.get("cursor") or None
    kinds: dict[tuple[str, ...], Kind] = {}
    looked = 0
    while looked < SCAN:
        letters = await _page(app, given, cursor)
        for letter in letters:
            _add(kinds, letter)
        looked += len(letters)
        cursor = letters.cursor
        if cursor is None:
            break
    ordered = sorted(kinds.values(), key=lambda kind: -kind.count)
    return Content(
        "dead.html",
        {"kinds": ordered, "looked": looked, "cursor": cursor, "given": given},
        "Dead letters",
    )


async def _page(app: App, given: dict[str, str | None], cursor: str | None) -> Any:
    return await app.admin.dead(
        queue=given["queue"],
        topic=given["topic"],
        group=given["group"],
        task=given["task"],
        reason=given["reason"],
        cursor=cursor,
        limit=STEP,
    )


def _add(kinds: dict[tuple[str, ...], Kind], letter: DeadLetter) -> None:
    place = letter.queue or f"{letter.topic}/{letter.group}"
    key = (place, letter.task, letter.reason, letter.error_type, letter.error[:100])
    kind = kinds.get(key)
    if kind is None:
        kind = kinds[key] = Kind(
            letter.task, place, letter.reason, letter.error_type, letter.error, letters=[]
        )
    kind.count += 1
    if len(kind.letters) < SAMPLES:
        kind.letters.append(letter)
