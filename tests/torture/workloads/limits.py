"""Jobs with limits, tenants and order: a limit for a task, one for each customer, a rate, tenants that take
turns, and accounts whose jobs run one at a time, in order. Some jobs fail and run again, or are cancelled."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Final

import msgspec

from headrace import Call, Limit, RetryPolicy
from tests.torture.facts import Plan
from tests.torture.program import PlannedFailure, Program

program = Program.from_environment(rate=60.0)
app = program.app

#: Retries of every job.
RETRIES: Final = 3
POLICY: Final = RetryPolicy.fixed(RETRIES, 0.02)

#: At most so many runs of the task `three` at once.
MOST: Final = 3

CUSTOMERS: Final = 10
TENANTS: Final = 4

#: Accounts of each producer.
ACCOUNTS: Final = 6

#: Every task has this queue: on a cluster, a limit counts one queue.
QUEUE: Final = "limited"


class Work(msgspec.Struct):
    """`fails`: so many runs of the job fail."""

    message: str
    nap: float = 0.0
    fails: int = 0


async def _run(work: Work) -> None:
    with program.running(work.message) as attempt:
        await asyncio.sleep(work.nap)
        if attempt <= work.fails:
            raise PlannedFailure(f"as planned, in attempt {attempt}")


@app.task(max_running=MOST, queue=QUEUE, retry=POLICY)
async def three(work: Work) -> None:
    await _run(work)


@app.task(
    limits=[Limit("customer", max_running=1, by="customer")], tenant_by="customer", queue=QUEUE, retry=POLICY
)
async def one_each(work: Work, customer: str) -> None:
    await _run(work)


@app.task(rate_limit="200/s", tenant_by="tenant", queue=QUEUE, retry=POLICY)
async def fair(work: Work, tenant: str) -> None:
    await _run(work)


@app.task(ordered_by="account", queue=QUEUE, retry=POLICY)
async def in_order(work: Work, account: str) -> None:
    await _run(work)


class Sender:
    """Chooses jobs and sends them one after the other, so that the jobs of an account have an order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._positions = count(1)

    def choose(self) -> tuple[str, Plan, Call[None]]:
        random, message = self._program.own, self._program.new_message()
        nap = random.choices([0.0, 0.01, 0.2], [70, 25, 5])[0]
        fails = random.choices([0, 1, RETRIES + 1], [90, 8, 2])[0]
        work = Work(message, nap, fails)
        match random.choice(["three", "one_each", "fair", "in_order"]):
            case "three":
                return message, _plan(work, "three", limit="three", most=MOST), three.call(work)
            case "one_each":
                customer = f"customer-{random.randrange(CUSTOMERS)}"
                return message, _plan(work, "one_each", limit=customer, most=1), one_each.call(work, customer)
            case "fair":
                tenant = f"tenant-{random.randrange(TENANTS)}"
                return message, _plan(work, "fair"), fair.call(work, tenant)
            case _:
                account = f"{self._program.recorder.process}-{random.randrange(ACCOUNTS)}"
                plan = _plan(
                    work, "in_order", limit=account, most=1, key=account, position=next(self._positions)
                )
                return message, plan, in_order.call(work, account)

    async def send(self) -> None:
        message, plan, call = self.choose()
        job = await self._program.send(message, plan, app.enqueue(call))
        if job is not None and self._program.own.random() < 0.03:
            await self._program.cancel(message, job)


def _plan(work: Work, task: str, **promises: Any) -> Plan:
    return Plan(task=task, attempts=RETRIES + 1, fails=work.fails, **promises)


async def _steadily(sender: Sender) -> None:
    async with app:
        while not program.stopped:
            for _ in range(10):
                await sender.send()
            await program.pace(10)


def produce(program: Program) -> None:
    asyncio.run(_steadily(Sender(program)))
