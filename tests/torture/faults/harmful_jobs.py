"""Jobs that harm their worker, or that it cannot read."""

from __future__ import annotations

from headrace import App, JobStatus
from tests.torture.arena import Arena, Fault
from tests.torture.facts import WORKERS, Plan


async def _block_the_loop(arena: Arena) -> None:
    """The leases are renewed by a thread: nothing may run again because of this, so it hits no process."""
    program, message = arena.program, arena.program.new_message()
    async with arena.fault("loop-blocked-2-leases"):
        await program.send(message, Plan(), program.harmful.block.enqueue(message, 2 * arena.lease))
        await arena.pause(leases=3)


async def _poison(arena: Arena) -> None:
    """A job that ends its process, as often as it runs: three workers, then it is dead."""
    program, message = arena.program, arena.program.new_message()
    async with arena.fault("poison", WORKERS):
        poison = program.harmful.poison.with_(job_id=message)  # sent again, it is one job
        job = await program.send(message, Plan(may_crash=True), poison.enqueue(message))
        while job is None:
            job = await program.send(message, Plan(may_crash=True), poison.enqueue(message))
        while await job.status() is not JobStatus.DEAD:
            await arena.pause(leases=0.1)
            await arena.fleet.fill_up()


class Garbage:
    """A codec that makes bytes which no process can read."""

    def encode(self, payload: bytes, /) -> bytes:
        return b"\xc1\xff garbage " + payload[:20]

    def decode(self, data: bytes, /) -> bytes:
        return data


async def _send_garbage(arena: Arena) -> None:
    """Bytes that are no arguments, and arguments that do not fit: these jobs die at once, and no other."""
    async with arena.fault("undecodable-jobs"):
        for app in (App(arena.store.direct_url, codec=Garbage()), App(arena.store.direct_url)):

            @app.task(name="torture.picky", queue="faults")
            async def picky(message: str, number: str) -> None:
                """Its number is a text here, which the workers refuse."""

            async with app:
                message = arena.program.new_message()
                await arena.program.send(message, Plan(may_die=True), picky.enqueue(message, "seven"))
        await arena.pause(leases=0.5)


FAULTS = [
    Fault("loop-blocked-2-leases", _block_the_loop),
    Fault("poison", _poison),
    Fault("undecodable-jobs", _send_garbage),
]
