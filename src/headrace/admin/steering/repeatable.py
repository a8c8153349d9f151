"""Steps of a method that changes many messages. A step is repeated while the store is unavailable. The counts
of earlier steps stay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.core.errors import BackendUnavailable
from headrace.engine.app_loop.retrying import with_retries

T = TypeVar("T")


class Counted(int):
    """A number of messages. `uncertain`: there may be more, because the answer to a step was lost and the
    step was repeated."""

    uncertain: bool = False


class RepeatableSteps:
    """The steps of one method. `doubt` is the last error that left open whether a step took effect."""

    def __init__(self) -> None:
        self.doubt: BackendUnavailable | None = None

    async def take(self, step: Callable[[], Awaitable[T]]) -> T:
        return await with_retries(step, on_error=self._note)

    def counted(self, number: int) -> Counted:
        counted = Counted(number)
        counted.uncertain = self.doubt is not None
        return counted

    def _note(self, error: BackendUnavailable) -> None:
        if error.uncertain:
            self.doubt = error
