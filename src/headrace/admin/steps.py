"""The steps of a verb that changes much: each is repeated while the store is away, and what was counted stays
counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.core.errors import BackendUnavailable
from headrace.engine.retrying import with_retries

T = TypeVar("T")


class Counted(int):
    """How many; `uncertain`: there may be more of them, since the answer to a step was lost and the step was
    made again."""

    uncertain: bool = False


class Steps:
    """Of one verb. `doubt` is the last error that left open whether a step was carried out."""

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
