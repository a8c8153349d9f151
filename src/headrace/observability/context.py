"""Which job a log record was written for, as attributes of the record."""

from __future__ import annotations

import logging

from headrace.core.current import under_way

#: What a record gets: the id, the task, the queue and the number of the attempt; of an event its id, its
#: kind and `topic/group`.
ATTRIBUTES = ("job_id", "task", "queue", "attempt")


class JobContext(logging.Filter):
    """Put it on a logging handler, and each record that is written in the handler of a job, in a coroutine or
    in a thread, says for which; a format may name `%(job_id)s`. Outside of jobs they are empty.

    It is a filter and no record factory: a factory's attributes could not be given with `extra=` any more,
    and who logs `extra={"task": ...}` today would get an error.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        run = under_way.get(None)
        facts: tuple[object, ...] = ("", "", "", "")
        if run is not None and not run.ended:  # a slot's context remembers the last run
            facts = (run.id, run.task, run.queue, run.attempt)
        for name, value in zip(ATTRIBUTES, facts, strict=True):
            record.__dict__.setdefault(name, value)
        return True
