"""Watches the verbs of stores and children in the process under test: writes down each point that it passes,
and does harm at one of them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from headrace.engine.streams import StreamRouter
from tests.torture.facts import Recorder

from .awaits import SOURCE
from .cancellation import Steps, cancel_here
from .point import AFTER, BEFORE, Harmed, Moment, Point, waits
from .verbs import CHILD_VERBS, KEEPER_VERBS, STORE_VERBS

#: A call that waits more often than this, such as a claim, is at the same point again.
MOST_WAITS: Final = 3

#: Where runs are: a call by way of these files is one that a handler makes, or its run.
RUNNING: Final = "engine/running/"

_SOURCE: Final = f"{SOURCE}{os.sep}"
_STORES: Final = f"{_SOURCE}stores{os.sep}"


class ReachedPoints(msgspec.Struct):
    """What a process passed: how often each point, and which lines of the source were waiting there."""

    points: dict[Point, int] = msgspec.field(default_factory=dict)
    lines: set[tuple[str, int]] = msgspec.field(default_factory=set)


class Probe:
    """One for each process under test. `harmed` is where and how it comes to harm; None: nowhere."""

    def __init__(self, recorder: Recorder, harmed: Harmed | None) -> None:
        self.hit = False
        self._recorder = recorder
        self._harmed = harmed
        self._points: Counter[Point] = Counter()
        self._lines: set[tuple[str, int]] = set()

    def install(self, store: type, keeper: type) -> None:
        """Put itself around the verbs of these classes, and of children."""
        watched = [(store, STORE_VERBS), (keeper, KEEPER_VERBS), *CHILD_VERBS.items()]
        for owner, verbs in watched:
            for verb in sorted(verbs):
                self._wrap(owner, verb)

        for verb in sorted(STORE_VERBS & set(dir(StreamRouter))):
            self._note_callers(StreamRouter, verb)

    def _note_callers(self, owner: type, verb: str) -> None:
        """Write down who calls a verb of the router. Some give it to a task, which is then the one that waits
        for the store."""
        original = getattr(owner, verb)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._way(sys._getframe(1))
            return original(*args, **kwargs)

        setattr(owner, verb, call)

    def seen(self) -> ReachedPoints:
        return ReachedPoints(dict(self._points), self._lines)

    def _wrap(self, owner: type, verb: str) -> None:
        original = owner.__dict__.get(verb) or getattr(owner, verb)
        name = f"{owner.__name__}.{verb}" if owner in CHILD_VERBS else verb
        if isinstance(original, classmethod):
            inner = original.__func__
            setattr(owner, verb, classmethod(self._watched(name, inner)))
        else:
            setattr(owner, verb, self._watched(name, original))

    def _watched(self, verb: str, original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            way = tuple(self._way(sys._getframe(1)))
            if not way:  # called by another verb of the store
                return original(*args, **kwargs)
            return _as_coroutine(_Watched(self, verb, way, functools.partial(original, *args, **kwargs)))

        return call

    def _way(self, frame: FrameType | None) -> list[str]:
        """The callers inside headrace, outermost first. None when a store calls its own verb."""
        found: list[str] = []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_SOURCE):
                if file.startswith(_STORES) and not found:
                    return []
                short = file.removeprefix(_SOURCE)
                self._lines.add((short, frame.f_lineno))
                found.append(f"{short}:{frame.f_code.co_name}:{frame.f_lineno}")
            frame = frame.f_back
        return found[::-1]

    def note_waiting(self, frame: FrameType | None) -> None:
        """Write down the lines that wait, which may be others than those that called."""
        self._way(frame)

    def passes(self, verb: str, way: tuple[str, ...], moment: Moment, waited_for: object = None) -> None:
        """The process is at a point. It may be its last. `waited_for` is the future, when it waits."""
        point = Point(verb, way, moment)
        self._points[point] += 1
        harmed = self._harmed
        if harmed is None or self.hit or harmed.point.verb != verb or harmed.point.moment != moment:
            return
        if harmed.point.way == way and self._points[point] >= harmed.point.occurrence:
            self.hit = True
            self._harm(harmed, waited_for)

    def _harm(self, harmed: Harmed, waited_for: object) -> None:
        name, me = f"{harmed.harm} at {harmed.point}", self._recorder.process
        if harmed.harm in ("cancel", "cancel-late"):
            # A cancellation is no crash. What has succeeded does not run again because of it, unless it hits
            # the task of a run: then this run has failed.
            gentle = not any(step.startswith(RUNNING) for step in harmed.point.way)
            self._recorder.write("fault_begun", value=name, run=name, targets=(me,), gentle=gentle)
            self._recorder.write("fault_ended", value=name, run=name)
            cancel_here(waited_for if harmed.harm == "cancel-late" else None)
            return
        self._recorder.write("fault_begun", value=name, run=name, targets=(me,))
        if harmed.harm == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._recorder.write("fault_ended", value=name, run=name)


def _children() -> list[int]:
    """The children of this process, by pid."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


class _Watched:
    """One call of a verb."""

    def __init__(
        self, probe: Probe, verb: str, way: tuple[str, ...], begin: Callable[[], Awaitable[Any]]
    ) -> None:
        self._probe = probe
        self._verb = verb
        self._way = way
        self._begin = begin
        self._number = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        probe, verb, way = self._probe, self._verb, self._way
        probe.note_waiting(sys._getframe(1))
        probe.passes(verb, way, BEFORE)
        value = yield from Steps(self._begin(), self._waits).__await__()
        probe.passes(verb, way, AFTER)
        return value

    def _waits(self, waited_for: object) -> None:
        self._number = min(self._number + 1, MOST_WAITS)
        self._probe.passes(self._verb, self._way, waits(self._number), waited_for)


async def _as_coroutine(watched: _Watched) -> Any:
    """Callers such as `create_task` want a coroutine."""
    return await watched
