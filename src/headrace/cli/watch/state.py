"""What the screen shows, and what the keys mean. Nothing here reads the store or the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from headrace.admin import GroupInfo, QueueInfo, Traffic
from headrace.admin.looking.diagnosis import diagnose, workloads
from headrace.admin.looking.doctor import one_line
from headrace.admin.place import Place
from headrace.cli.status.snapshot import Snapshot
from headrace.core.records.findings import Finding, Level

#: Seconds without an answer of the store after which the screen says so.
LATE: Final = 3.0

_FAR: Final = 10**9
_MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -10, "page down": 10}
_MOVES_TO_END: Final = {"home": -_FAR, "g": -_FAR, "end": _FAR, "G": _FAR}


class WatchRow(msgspec.Struct, frozen=True):
    """A queue or a group. `info` is None for a topic that no group reads."""

    place: Place
    traffic: Traffic
    info: QueueInfo | GroupInfo | None = None


class WatchAction(msgspec.Struct, frozen=True):
    """What a key asks for. `count`: the dead letters that the user saw."""

    verb: Literal["quit", "pause", "resume", "replay"]
    place: Place = Place()
    count: int = 0

    def __str__(self) -> str:
        return f"{self.verb.removesuffix('e')}ing {self.place}"


class WatchState:
    """The last snapshot, the selected row, and what is under way."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.snapshot: Snapshot | None = None
        self.findings: list[Finding] = []
        self.rows: list[WatchRow] = []
        self.rates = Rates()
        self.selected: Place | None = None
        self.asking: WatchAction | None = None
        self.running: WatchAction | None = None
        self.showing_help = False
        self.message, self.is_error = "", False
        self._problem = ""
        self._asked_at: float | None = None

    def ask(self) -> None:
        """The store is asked; its answer comes later."""
        self._asked_at = time.monotonic()

    def update(self, snapshot: Snapshot, findings: list[Finding]) -> None:
        """The store has answered."""
        before = self._position()
        self.store = snapshot.store
        self.snapshot, self.findings, self._problem, self._asked_at = snapshot, findings, "", None
        self.rows = _rows(snapshot)
        self.rates.update(snapshot.traffic)
        if self.current is None:  # the selected row is gone: the row at its position is next
            self._select(before)

    def fail(self, problem: str) -> None:
        """The store cannot be asked."""
        self._problem, self._asked_at = problem, None

    @property
    def problem(self) -> str:
        """Why the store is not available; empty while it is."""
        silent = 0.0 if self._asked_at is None else time.monotonic() - self._asked_at
        return self._problem or (f"no answer for {silent:.0f} s" if silent > LATE else "")

    @property
    def current(self) -> WatchRow | None:
        """The selected row."""
        return next((row for row in self.rows if row.place == self.selected), None)

    @property
    def replayed(self) -> int:
        """How many dead letters of the replay under way are gone by now."""
        if self.running is None:
            return 0
        left = sum(row.info.dead for row in self.rows if row.info and row.place == self.running.place)
        return max(0, self.running.count - left)

    def tell(self, text: str, *, error: bool = False) -> None:
        """Show a text until the next key."""
        self.message, self.is_error = text, error

    def press(self, key: str) -> WatchAction | None:
        """What a key asks for, apart from a change of the screen."""
        self.tell("")
        if self.asking is not None:
            return self._answer(key)
        if self.showing_help:
            self.showing_help = False
            return WatchAction("quit") if key == "q" else None
        match key:
            case "q" | "Q" | "escape":
                return WatchAction("quit")
            case "p" | "r":
                return self._act(key)
            case "?" | "h":
                self.showing_help = True
            case _ if by := _MOVES.get(key) or _MOVES_TO_END.get(key):
                self._select(self._position() + by)
        return None

    def _answer(self, key: str) -> WatchAction | None:
        action, self.asking = self.asking, None
        if key in ("y", "Y"):
            return action
        self.tell("nothing was changed")
        return None

    def _act(self, key: str) -> WatchAction | None:
        row = self.current
        if row is None:
            return None
        if self.running is not None:
            self.tell(f"please wait: still {self.running}", error=True)
        elif row.info is None:
            self.tell(f"no group reads {row.place}: there is nothing to pause or replay")
        elif key == "p":
            return WatchAction("resume" if row.info.paused else "pause", row.place)
        elif row.info.dead:
            self.asking = WatchAction("replay", row.place, row.info.dead)
        else:
            self.tell(f"{row.place.words} has no dead letters")
        return None

    def _position(self) -> int:
        return next((at for at, row in enumerate(self.rows) if row.place == self.selected), 0)

    def _select(self, position: int) -> None:
        last = len(self.rows) - 1
        self.selected = self.rows[min(max(position, 0), last)].place if self.rows else None


class Rates:
    """Jobs or events per second, from counts that a store keeps for each minute.

    How much of the current minute has passed is known from our own clock, until a minute of the store is seen
    to begin: its clock may differ.
    """

    def __init__(self) -> None:
        self._full_minutes: tuple[int, ...] = ()
        self._began_at: float | None = None  # a minute of the store, on the monotonic clock

    def update(self, traffic: Sequence[Traffic]) -> None:
        full_minutes = total([each.done for each in traffic])[:-1]
        if self._full_minutes and full_minutes != self._full_minutes:
            self._began_at = time.monotonic()
        self._full_minutes = full_minutes

    def per_second(self, counts: Sequence[int]) -> float:
        """Over the last 60 seconds: the current minute, and a part of the one before."""
        if len(counts) < 2:
            return 0.0
        passed = (time.time() if self._began_at is None else time.monotonic() - self._began_at) % 60
        return (counts[-1] + counts[-2] * (1 - passed / 60)) / 60


def warnings(seen: Snapshot, findings: list[Finding]) -> list[tuple[str, Level]]:
    """What the doctor found in the store, and what is wrong with its queues, topics and workers."""
    problems = diagnose(workloads(seen.queues, seen.topics), seen.workers, seen.outboxes)
    return [
        *((one_line(finding), finding.level) for finding in findings),
        *((problem.text, Level.WARN) for problem in problems),
    ]


def total(counts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sum of each minute."""
    return tuple(map(sum, zip(*counts, strict=False)))


def _rows(snapshot: Snapshot) -> list[WatchRow]:
    """Queues, then topics with their groups."""
    found: list[tuple[str, Place, QueueInfo | GroupInfo | None]] = []
    found += [("queue", Place(queue.name), queue) for queue in snapshot.queues]
    for topic in snapshot.topics:
        found += [("group", Place(None, topic.name, group.group), group) for group in topic.groups]
        found += [] if topic.groups else [("topic", Place(None, topic.name), None)]
    traffic = {(each.kind, each.name): each for each in snapshot.traffic}
    return [
        WatchRow(place, traffic.get((kind, str(place))) or Traffic(kind, str(place)), info)
        for kind, place, info in found
    ]
