"""A limit as users declare it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from headrace.core.errors import ConfigurationError
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number

from .figures import LimitFigures
from .paused_tasks import PAUSED
from .rate import Rate

#: The name of a parameter, or a function that gets the arguments of the call.
KeyOf = str | Callable[..., object]


@dataclass(frozen=True)
class Limit:
    """How many jobs may run at once or start in a span of time, over the whole fleet.

    - `name`: limits of one name are one budget, for all tasks and queues that declare it. A limit without a
      name belongs to the task or queue that declares it.
    - `rate`: how many jobs may start, such as `"100/s"`, `"20/m"`, `"5/h"` or `"1/d"`. Starts are evenly
      spaced, except for a burst.
    - `burst`: how many of them may start at once; by default what the rate gives in 0.1 s, at least 1
    - `max_running`: how many jobs may run at once
    - `by`: the name of a parameter, or a function of the arguments. Each value has a budget of its own.
    """

    name: str | None = None
    _: KW_ONLY
    rate: str | None = None
    burst: int | None = None
    max_running: int | None = None
    by: KeyOf | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            _own_name(self.name)
        if self.rate is None and self.max_running is None:
            raise ConfigurationError("a limit needs rate= or max_running=, or both")
        if self.burst is not None and self.rate is None:
            raise ConfigurationError("burst= belongs to a rate: give rate= too")
        for option in ("burst", "max_running"):
            if (value := getattr(self, option)) is not None:
                positive_number(option, value)
        if self.rate is not None:
            Rate.parse(self.rate)
        if not (self.by is None or isinstance(self.by, str) or callable(self.by)):
            raise ConfigurationError(
                f"by= is the name of a parameter or a function of the arguments, not {self.by!r}"
            )

    def figures(self, owner: str) -> LimitFigures:
        """What it allows. `owner` is the name of a limit that has none of its own."""
        rate = None if self.rate is None else Rate.parse(self.rate, self.burst)
        return LimitFigures(self.name or owner, self.max_running, rate)


def _own_name(name: object) -> str:
    """A name that no paused task has: resuming that task would take the figures of the limit away."""
    checked = checked_name("limit", name)
    if checked.startswith(PAUSED):
        raise ConfigurationError(
            f"a limit cannot be called {checked!r}: so is the pause of a task; leave out {PAUSED!r}"
        )
    return checked
