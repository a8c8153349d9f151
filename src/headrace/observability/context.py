"""The job of a log record, as attributes of the record."""

from __future__ import annotations

import logging

from headrace.core.runtime.current_run import under_way

#: The attributes that a record gets: id, task, queue and number of the attempt. For an event they are its id,
#: its kind and `topic/group`.
ATTRIBUTES = ("job_id", "task", "queue", "attempt")


class JobContext(logging.Filter):
    """Add it to a logging handler. Then each record that a job writes, in a coroutine or in a thread, names
    its job; a format may use `%(job_id)s`. Outside of jobs the attributes are empty.

    It is a filter and not a record factory: with a factory, `extra={"task": ...}` would be an error.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        run = under_way.get(None)
        facts: tuple[object, ...] = ("", "", "", "")
        if run is not None and not run.ended:  # the context of a slot keeps the last run
            facts = (run.id, run.task, run.queue, run.attempt)
        for name, value in zip(ATTRIBUTES, facts, strict=True):
            record.__dict__.setdefault(name, value)
        return True
