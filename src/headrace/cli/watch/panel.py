"""What a person sees and has chosen, and what their keys mean: a wish, which others carry out."""

from __future__ import annotations

import time
from typing import Final, TypeAlias

import msgspec

from headrace.admin.place import Place
from headrace.cli.render import counted
from headrace.cli.snapshot import Snapshot
from headrace.core.examination import Finding

from .pace import Pace
from .rows import Row, rows_of

#: Seconds without news from the store after which that is said.
LATE: Final = 3.0

#: Rows that page up and page down go at once.
LEAP: Final = 10

_MOVES: Final = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page up": -LEAP,
    "page down": LEAP,
    "home": -(10**9),
    "g": -(10**9),
    "end": 10**9,
    "G": 10**9,
}


class Quit(msgspec.Struct, frozen=True):
    """Enough seen."""


class Pause(msgspec.Struct, frozen=True):
    """Pause a queue or a group, or let it go on."""

    place: Place
    paused: bool


class Replay(msgspec.Struct, frozen=True):
    """Run the dead letters of a queue or a group again; `count` of them were seen."""

    place: Place
    count: int


Wish: TypeAlias = Quit | Pause | Replay


class Panel:
    """The state of the screen. Nothing here looks at the store, or at the terminal."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.seen: Snapshot | None = None
        self.rows: list[Row] = []
        self.findings: list[Finding] = []
        self.pace = Pace()
        self.selected: Place | None = None
        self.asking: Replay | None = None
        self.helping = False
        self.busy, self.done = "", 0.0  # what is being done, and how much of it is
        self.said, self.is_bad = "", False
        self._lost = ""
        self._asked: float | None = None

    # --- what the store says -----------------------------------------------------------------------------

    def ask(self) -> None:
        """The store is asked, and has not answered yet."""
        self._asked = time.monotonic()

    def show(self, seen: Snapshot, findings: list[Finding]) -> None:
        """The store has answered."""
        before = self._at()
        self.seen, self.findings, self._lost, self._asked = seen, findings, "", None
        self.rows = rows_of(seen)
        self.pace.follow(seen.traffic)
        if self.current is None:  # it is gone, or nothing was there: the one that stands in its place
            self.selected = self.rows[min(before, len(self.rows) - 1)].place if self.rows else None

    def lose(self, why: str) -> None:
        """It has not, and said why."""
        self._lost, self._asked = why, None

    @property
    def lost(self) -> str:
        """Why the store cannot be seen now; empty while it can."""
        silent = 0.0 if self._asked is None else time.monotonic() - self._asked
        return self._lost or (f"no answer for {silent:.0f} s" if silent > LATE else "")

    def say(self, text: str, *, bad: bool = False) -> None:
        """Something to be read until the next key."""
        self.said, self.is_bad = text, bad

    # --- what the person says ----------------------------------------------------------------------------

    @property
    def current(self) -> Row | None:
        """The row that keys are about."""
        return next((row for row in self.rows if row.place == self.selected), None)

    def press(self, key: str) -> Wish | None:
        """What a key asks for, beyond the screen itself."""
        self.say("")
        if self.asking is not None:
            return self._answered(key)
        if self.helping:
            self.helping = False
            return Quit() if key == "q" else None
        if key in ("q", "Q", "escape"):
            return Quit()
        if key in ("?", "h"):
            self.helping = True
        elif key in _MOVES:
            self._move(_MOVES[key])
        elif key in ("p", "r"):
            return self._steered(key)
        return None

    def _answered(self, key: str) -> Wish | None:
        wish, self.asking = self.asking, None
        if key in ("y", "Y"):
            return wish
        self.say("nothing was changed")
        return None

    def _steered(self, key: str) -> Wish | None:
        row = self.current
        if row is None:
            return None
        if self.busy:
            self.say("one thing at a time: the last one is still under way", bad=True)
        elif not row.is_steerable:
            self.say(f"no group reads {row.place}: there is nothing to steer")
        elif key == "p":
            return Pause(row.place, not row.paused)
        elif row.dead:
            self.asking = Replay(row.place, row.dead)
        else:
            self.say(f"{row.place.words} has no dead letters")
        return None

    def _move(self, by: int) -> None:
        if self.rows:
            self.selected = self.rows[min(max(self._at() + by, 0), len(self.rows) - 1)].place

    def _at(self) -> int:
        return next((at for at, row in enumerate(self.rows) if row.place == self.selected), 0)


def question(wish: Replay) -> str:
    """What is asked before a replay."""
    return f"Replay {counted(wish.count, 'dead letter')} of {wish.place}?"
