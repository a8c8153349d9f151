"""`app.sync.admin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.admin import Admin, Contents, Counted, EventInfo, QueueInfo, Replayed, TopicInfo, Traffic
from headrace.core.examination import Finding
from headrace.core.info import JobInfo
from headrace.core.outcome import DeadReason
from headrace.core.record import DeadLetter, JobStatus, Page, WorkerInfo
from headrace.core.starts import StartAt

from .portal import Portal


class SyncAdmin:
    """`app.sync.admin`: the verbs of `app.admin`, waited for."""

    def __init__(self, portal: Portal, admin: Admin) -> None:
        self._run = portal.run
        self._admin = admin

    def queues(self) -> list[QueueInfo]:
        return self._run(self._admin.queues)

    def topics(self) -> list[TopicInfo]:
        return self._run(self._admin.topics)

    def jobs(
        self,
        queue: str | None = None,
        *,
        topic: str | None = None,
        group: str | None = None,
        state: JobStatus | str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[JobInfo]:
        return self._run(
            self._admin.jobs,
            queue,
            topic=topic,
            group=group,
            state=state,
            task=task,
            cursor=cursor,
            limit=limit,
        )

    def job(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> JobInfo | None:
        return self._run(self._admin.job, id, queue=queue, topic=topic, group=group)

    def holder(self, key: str, *, queue: str | None = None) -> JobInfo | None:
        return self._run(self._admin.holder, key, queue=queue)

    def contents(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> Contents | None:
        return self._run(self._admin.contents, id, queue=queue, topic=topic, group=group)

    def workers(self) -> list[WorkerInfo]:
        return self._run(self._admin.workers)

    def traffic(self, minutes: int = 60) -> list[Traffic]:
        return self._run(self._admin.traffic, minutes)

    def doctor(self) -> list[Finding]:
        return self._run(self._admin.doctor)

    def tail(
        self, topic: str, *, since: StartAt | None = None, group: str | None = None, follow: bool = True
    ) -> Iterator[EventInfo]:
        """Follow a topic; leaving the loop over it ends it."""
        tail = self._admin.tail(topic, since=since, group=group, follow=follow)

        async def following() -> EventInfo | None:
            return await anext(tail, None)

        def events() -> Iterator[EventInfo]:
            try:
                while (event := self._run(following)) is not None:
                    yield event
            finally:
                self._run(tail.stop)

        return events()

    def pause(self, queue: str) -> None:
        self._run(self._admin.pause, queue)

    def resume(self, queue: str) -> None:
        self._run(self._admin.resume, queue)

    def purge(self, queue: str) -> Counted:
        return self._run(self._admin.purge, queue)

    def split(self, queue: str, partitions: int) -> None:
        self._run(self._admin.split, queue, partitions)

    def pause_group(self, topic: str, group: str) -> None:
        self._run(self._admin.pause_group, topic, group)

    def resume_group(self, topic: str, group: str) -> None:
        self._run(self._admin.resume_group, topic, group)

    def reset_group(self, topic: str, group: str, *, to: StartAt) -> None:
        self._run(self._admin.reset_group, topic, group, to=to)

    def remove_group(self, topic: str, group: str) -> bool:
        return self._run(self._admin.remove_group, topic, group)

    def dead(
        self,
        *,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[DeadLetter]:
        return self._run(
            self._admin.dead,
            queue=queue,
            topic=topic,
            group=group,
            task=task,
            reason=reason,
            cursor=cursor,
            limit=limit,
        )

    def replay(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Replayed:
        return self._run(
            self._admin.replay, ids=ids, queue=queue, topic=topic, group=group, task=task, reason=reason
        )

    def discard(
        self,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        task: str | None = None,
        reason: DeadReason | str | None = None,
    ) -> Counted:
        return self._run(
            self._admin.discard, ids=ids, queue=queue, topic=topic, group=group, task=task, reason=reason
        )

    def cancel(
        self,
        ids: Sequence[str],
        *,
        queue: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> int:
        return self._run(self._admin.cancel, ids, queue=queue, topic=topic, group=group)

    def retry_now(
        self, id: str, *, queue: str | None = None, topic: str | None = None, group: str | None = None
    ) -> bool:
        return self._run(self._admin.retry_now, id, queue=queue, topic=topic, group=group)

    def edit(
        self,
        id: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> bool:
        return self._run(self._admin.edit, id, args=args, kwargs=kwargs, queue=queue)
