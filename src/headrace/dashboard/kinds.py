"""Dead letters by kind: one place, one task, one reason, one error, whatever numbers its text holds."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from headrace.app import App
from headrace.core.record import DeadLetter

from .place import Place, place_of

#: Letters that are looked at for one page, seconds that it takes, and letters shown of each kind.
SCAN: Final = 5000
SECONDS: Final = 0.7
STEP: Final = 100
SAMPLES: Final = 20

#: What differs between errors of one kind: numbers, ids, addresses.
_VARIABLE = re.compile(r"0x[0-9a-f]+|[0-9a-z]{26}|\d+", re.IGNORECASE)


class Chosen(msgspec.Struct, frozen=True):
    """Which dead letters are asked for."""

    place: Place = Place()
    task: str | None = None
    reason: str | None = None

    @property
    def options(self) -> dict[str, str]:
        more = {"task": self.task, "reason": self.reason}
        return {**self.place.options, **{name: value for name, value in more.items() if value}}


class Kind(msgspec.Struct):
    """Letters that died of the same. `mark` names the kind in a form."""

    mark: str
    place: Place
    task: str
    reason: str
    error_type: str
    error: str
    count: int = 0
    letters: list[DeadLetter] = []


class Kinds(msgspec.Struct, frozen=True):
    kinds: list[Kind]
    looked: int
    cursor: str | None


async def kinds_of(app: App, chosen: Chosen, cursor: str | None) -> Kinds:
    """The kinds among the latest letters, the most frequent first."""
    kinds: dict[str, Kind] = {}
    looked, until = 0, time.monotonic() + SECONDS
    while True:
        page = await app.admin.dead(**chosen.options, cursor=cursor, limit=STEP)
        for letter in page:
            _add(kinds, letter)
        looked += len(page)
        cursor = page.cursor
        if cursor is None or looked >= SCAN or time.monotonic() > until:
            break
    return Kinds(sorted(kinds.values(), key=lambda kind: -kind.count), looked, cursor)


async def ids_of_kind(app: App, chosen: Chosen, mark: str) -> list[str]:
    """All letters of one kind, however many there are."""
    return [letter.id async for letter in _all(app, chosen) if mark_of(letter) == mark]


def mark_of(letter: DeadLetter) -> str:
    said = _VARIABLE.sub("#", letter.error[:300])
    parts = (str(place_of(letter)), letter.task, letter.reason, letter.error_type, said)
    text = "\0".join(parts).encode(errors="replace")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


async def _all(app: App, chosen: Chosen) -> AsyncIterator[DeadLetter]:
    cursor: str | None = None
    while True:
        page = await app.admin.dead(**chosen.options, cursor=cursor, limit=STEP)
        for letter in page:
            yield letter
        cursor = page.cursor
        if cursor is None:
            return


def _add(kinds: dict[str, Kind], letter: DeadLetter) -> None:
    mark = mark_of(letter)
    kind = kinds.get(mark)
    if kind is None:
        kind = kinds[mark] = Kind(
            mark,
            place_of(letter),
            letter.task,
            letter.reason,
            letter.error_type,
            letter.error,
            letters=[],
        )
    kind.count += 1
    if len(kind.letters) < SAMPLES:
        # Without what the page does not show: bodies may be long.
        kind.letters.append(msgspec.structs.replace(letter, payload=b"", traceback=""))
