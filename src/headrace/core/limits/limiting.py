"""The part of a store's contract that concerns limits. Begin with `core/store.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from .figures import LimitFigures, LimitRecord


class Limiting(ABC):
    """A capability that a store may lack: limits, tenants, and ordered jobs (`Message.key` in a queue). With
    a store that lacks it, a worker of an app that uses them does not start.

    Limits are counted by the steps that move messages.

    **What counts.** `claim` takes a slot and a token of every limit of a message, or of none, and then hands
    the message out. The step in which the message leaves its claim gives the slots back: `settle`, `reclaim`,
    or a `Done` of an earlier claim. `Released(unstarted=True)` also gives the tokens back. So a run counts
    from its claim to its settlement.

    **Waiting.** A queued message with constraints is in a line. A line is *open*, or it is *blocked* by one
    limit. A claim takes from open lines only. A line that asks for a slot or token in vain is blocked by that
    limit. A slot that comes back opens the first line that its limit blocks: the lane comes first, then the
    order of queueing. When a token comes back, `promote` does the same. So nothing polls, and each step costs
    O(log n) of the lines. A claim that takes nothing from an open line (it was blocked by another limit, or
    its messages were cancelled) opens the next line of its limits.

    A limit that is not declared limits nothing.

    `limits_each_stream`: the streams of this store are on several servers, so a limit counts each stream by
    itself. Then a worker refuses a limit that concerns several streams.

    **Other constraints.** A `Released` with constraints gives a message others than those that its producer
    knew. The step gives the slots and tokens of the earlier ones back.
    """

    limits_each_stream: bool = False

    def use_hash_tag(self, queue: str, tag: str) -> None:
        """Keep a queue beside all others of this hash tag: there a limit counts them together. It is called
        before the queue is first used. Only a store that `limits_each_stream` has a use for it."""
        if self.limits_each_stream:
            raise NotImplementedError

    def hash_tag_of(self, queue: str) -> str:
        """The hash tag of a queue; empty: it has none."""
        return ""

    @abstractmethod
    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        """Store the figures of limits. The newest declaration of a name holds, for all processes. Answers the
        figures from before for those that were others. An override of `set_limit` stays. Repeatable."""

    @abstractmethod
    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        """Override the declared figures of a limit; None: they hold again. False: there is no such limit.
        Repeatable. Lines that may go on are opened."""

    @abstractmethod
    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        """Every limit that was declared or overridden, by name. Without `counted`, the counts are 0: this
        costs little, also while very many messages wait."""
