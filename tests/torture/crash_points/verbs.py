"""What is waited for: the coroutine verbs of a store, of its lease keeper, and of child processes."""

from __future__ import annotations

import inspect
from typing import Final

from headrace.core.history.recording import Recording
from headrace.core.limits.limiting import Limiting
from headrace.core.store import LeaseKeeper, PartitionedStore
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.children.process import ChildProcess


def _coroutine_verbs(contract: type) -> frozenset[str]:
    names: frozenset[str] = getattr(contract, "__abstractmethods__", frozenset())
    return frozenset(name for name in names if inspect.iscoroutinefunction(getattr(contract, name)))


STORE_VERBS: Final = frozenset[str]().union(*map(_coroutine_verbs, (PartitionedStore, Limiting, Recording)))
KEEPER_VERBS: Final = _coroutine_verbs(LeaseKeeper)

#: By class, since children have no contract of their own.
CHILD_VERBS: Final[dict[type, frozenset[str]]] = {
    ChildPool: frozenset({"run", "close", "_take"}),
    ChildProcess: frozenset({"start", "do", "_connect"}),
}
