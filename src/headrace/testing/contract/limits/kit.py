"""Short ways to say what limits a message has."""

from __future__ import annotations

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.rate import Rate
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.testing.contract.kit.stand import Stand


def limited(*limits: str, tenant: str = "") -> Constraints:
    """The constraints of a message: each limit as `name`, or `name=key`."""
    return Constraints(tuple(LimitKey(*limit.split("=")) for limit in limits), tenant)


def of_tenant(tenant: str) -> Constraints:
    return Constraints((), tenant)


async def declare(
    stand: Stand, name: str, *, max_running: int | None = None, rate: str = "", burst: int | None = None
) -> None:
    """Declare one limit."""
    await stand.backend.declare_limits([figures(name, max_running=max_running, rate=rate, burst=burst)])


def figures(
    name: str, *, max_running: int | None = None, rate: str = "", burst: int | None = None
) -> LimitFigures:
    return LimitFigures(name, max_running, Rate.parse(rate, burst) if rate else None)


async def record_of(stand: Stand, name: str) -> LimitRecord:
    (record,) = [each for each in await stand.backend.limits() if each.figures.name == name]
    return record


async def add_all(stand: Stand, count: int, constraints: Constraints, *, priority: int = 1) -> list[str]:
    """Append messages with the same constraints in one batch, and give their ids."""
    messages = [stand.message(constraints=constraints, priority=priority) for _ in range(count)]
    assert all(answer.verdict == "accepted" for answer in await stand.append(*messages))
    return [message.id for message in messages]
