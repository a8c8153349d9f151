"""A worker takes over what a process has left, until nothing is left. Then everything ends in good order, and
what is dead or left over is written down."""

from __future__ import annotations

from headrace.core.limits.paused_tasks import PAUSED
from tests.torture.campaign import end_schedules, left_over, note_the_dead
from tests.torture.crash_points.script import LEASE, app, mend, note_groups, program, survived
from tests.torture.fleet import wait_until

#: Seconds until everything must have come to its end.
DRAINED = 30.0


async def act() -> None:
    note_groups()
    mend()
    await survived(_resume_all())
    async with app.worker(lease=LEASE, grace=0.5, concurrency=10, children=1):
        await survived(end_schedules(app, program.recorder))
        await survived(wait_until(_drained, timeout=DRAINED))
    program.recorder.write("drained")
    for what in await survived(left_over(app)) or []:
        program.recorder.write("left", value=what)
    await survived(note_the_dead(app, program.recorder))


async def _resume_all() -> None:
    for limit in await app.admin.limits():
        if limit.name.startswith(PAUSED):
            await app.admin.resume(task=limit.name.removeprefix(PAUSED))
    for queue in await app.admin.queues():
        if queue.paused:
            await app.admin.resume(queue.name)
    for topic in await app.admin.topics():
        for group in topic.groups:
            if group.paused:
                await app.admin.resume_group(topic.name, group.group)


async def _drained() -> bool:
    found = await survived(left_over(app))
    return found == []
