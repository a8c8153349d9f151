"""Dead letters in groups: one place, one task, one reason, one error. Numbers in its text do not count."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from headrace.admin.place import Place, place_of
from headrace.app import App
from headrace.core.records.record import DeadLetter

#: Dead letters read for one page, seconds that this may take, dead letters read at once, and dead letters
#: shown of each group.
SCAN: Final = 5000
SECONDS: Final = 0.7
STEP: Final = 100
SAMPLES: Final = 20

#: The parts of an error's text that vary within a group: numbers, ids, addresses.
_VARIABLE = re.compile(r"0x[0-9a-f]+|[0-9a-z]{26}|\d+", re.IGNORECASE)


class DeadSearch(msgspec.Struct, frozen=True):
    """Which dead letters a user asks for."""

    place: Place = Place()
    task: str | None = None
    reason: str | None = None

    @property
    def options(self) -> dict[str, str]:
        more = {"task": self.task, "reason": self.reason}
        return {**self.place.options, **{name: value for name, value in more.items() if value}}


class ErrorGroup(msgspec.Struct):
    """Dead letters with the same error. A form names the group by its `key`."""

    key: str
    place: Place
    task: str
    reason: str
    error_type: str
    error: str
    count: int = 0
    letters: list[DeadLetter] = []


class ErrorGroups(msgspec.Struct, frozen=True):
    """The groups among the dead letters that were `searched`, and where to continue."""

    groups: list[ErrorGroup]
    searched: int
    cursor: str | None


async def error_groups(app: App, search: DeadSearch, cursor: str | None) -> ErrorGroups:
    """The groups among the latest dead letters, the most frequent first."""
    groups: dict[str, ErrorGroup] = {}
    searched, until = 0, time.monotonic() + SECONDS
    while True:
        page = await app.admin.dead(**search.options, cursor=cursor, limit=STEP)
        for letter in page:
            _add(groups, letter)
        searched += len(page)
        cursor = page.cursor
        if cursor is None or searched >= SCAN or time.monotonic() > until:
            break
    return ErrorGroups(sorted(groups.values(), key=lambda group: -group.count), searched, cursor)


async def ids_of_group(app: App, search: DeadSearch, key: str) -> list[str]:
    """The ids of all dead letters of one group, however many there are."""
    return [letter.id async for letter in _all(app, search) if group_key(letter) == key]


def group_key(letter: DeadLetter) -> str:
    error = _VARIABLE.sub("#", letter.error[:300])
    parts = (str(place_of(letter)), letter.task, letter.reason, letter.error_type, error)
    text = "\0".join(parts).encode(errors="replace")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


async def _all(app: App, search: DeadSearch) -> AsyncIterator[DeadLetter]:
    cursor: str | None = None
    while True:
        page = await app.admin.dead(**search.options, cursor=cursor, limit=STEP)
        for letter in page:
            yield letter
        cursor = page.cursor
        if cursor is None:
            return


def _add(groups: dict[str, ErrorGroup], letter: DeadLetter) -> None:
    key = group_key(letter)
    group = groups.get(key)
    if group is None:
        group = groups[key] = ErrorGroup(
            key,
            place_of(letter),
            letter.task,
            letter.reason,
            letter.error_type,
            letter.error,
            letters=[],
        )
    group.count += 1
    if len(group.letters) < SAMPLES:
        # Without the parts that the page does not show: they may be long.
        group.letters.append(msgspec.structs.replace(letter, payload=b"", traceback=""))
