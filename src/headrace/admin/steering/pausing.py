"""Pauses and resumes a queue or a task."""

from __future__ import annotations

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.limits.paused_tasks import pause_of
from headrace.core.messages.message import Stream
from headrace.core.values.names import checked_name
from headrace.engine.streams import StreamRouter


class PauseChange(msgspec.Struct, frozen=True):
    """A queue or a task is paused, or goes on."""

    queue: str | None
    task: str | None
    paused: bool

    def __post_init__(self) -> None:
        if (self.queue is None) is (self.task is None):
            raise ConfigurationError(
                "say what to pause or resume: a queue, such as 'mails', or task='shop.send'"
            )
        if self.queue is not None:
            checked_name("queue", self.queue)
        if self.task is not None:
            checked_name("task", self.task)

    async def apply(self, store: StreamRouter) -> None:
        if self.queue is not None:
            await store.pause(Stream("queue", self.queue), paused=self.paused)
        if self.task is not None:
            await store.declare_limits([pause_of(self.task, paused=self.paused)])
