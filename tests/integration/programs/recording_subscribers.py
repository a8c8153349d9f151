"""An app whose subscribers write down what they get: what real worker processes run in these tests.

A worker is started as `headrace worker tests.integration.programs.recording_subscribers:app`. The
environment names store and log.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from headrace import App, Delivery, Event, RetryPolicy, Topic, signals
from tests.integration.programs.recording_app import LOG, STORE, Log

GROUPS = ("billing", "stock", "mail")


class Story(msgspec.Struct):
    """`hang`: the first handler that gets the event never returns."""

    number: int
    hang: bool = False


def flood_log(log: Log) -> Path:
    return log.path.with_name("flood.txt")


class EventProgram:
    """The app and its topic, for workers and for the tests that feed them."""

    def __init__(self, url: str, log: Log, *, partitions: int = 1) -> None:
        self.app = App(url, retry=RetryPolicy.fixed(3, 0.05))
        self.stories: Topic[Story] = self.app.topic("stories", Story, partitions=partitions)
        self.everywhere: Topic[Story] = self.app.topic("everywhere", Story, partitions=partitions)
        self._log = log
        for group in GROUPS:
            self._subscribe_in_order(group)
        self._subscribe_to_the_flood()
        self._subscribe_hanging()
        self._fan_out()
        self._listen()

    def _subscribe_in_order(self, group: str) -> None:
        @self.stories.subscribe(group, ordered=True, start="beginning")
        async def handle(event: Event[Story]) -> None:
            self._log.write("handled", group=group, key=event.key, number=event.payload.number)

    def _subscribe_to_the_flood(self) -> None:
        """As in order, but many: a short line for each, in one write."""
        flood: Topic[int] = self.app.topic("flood", int)
        lines: list[int] = []

        def note(line: str) -> None:
            if not lines:
                lines.append(os.open(flood_log(self._log), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            os.write(lines[0], line.encode())

        for group in GROUPS:

            @flood.subscribe(group, ordered=True, start="beginning", max_in_flight=500)
            async def handle(event: Event[int], group: str = group) -> None:
                note(f"{group} {event.key} {event.payload}\n")

    def _subscribe_hanging(self) -> None:
        rare = self.app.topic("rare", Story)

        @rare.subscribe("readers", start="beginning")
        async def read(delivery: Delivery[Story]) -> None:
            self._log.write("reading", number=delivery.payload.number, attempt=delivery.attempt)
            # A worker that a busy machine held up may have handed it back before any handler began.
            if delivery.payload.hang and len(self._log.lines("reading", number=delivery.payload.number)) == 1:
                await asyncio.sleep(3600)
            self._log.write("read", number=delivery.payload.number)

    def _fan_out(self) -> None:
        @self.everywhere.subscribe(fan_out=True)
        async def hear(story: Story) -> None:
            self._log.write("heard", number=story.number)

    def _listen(self) -> None:
        @self.app.on(signals.WorkerStarted)
        def worker_started(signal: signals.WorkerStarted) -> None:
            self._log.write("working")


if STORE in os.environ:
    app = EventProgram(os.environ[STORE], Log(Path(os.environ[LOG]))).app
    parted = EventProgram(os.environ[STORE], Log(Path(os.environ[LOG])), partitions=3).app
