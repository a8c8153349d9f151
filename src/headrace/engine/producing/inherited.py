"""What an event inherits from the job or event in whose handler it is published."""

from __future__ import annotations

from headrace.core.messages.event_envelope import decode_event
from headrace.core.messages.sending import TRACEPARENT
from headrace.engine.running.run import current_run

#: The header of a job in which the correlation id of the event that started it travels.
CORRELATION_ID = "correlation-id"


def inherited() -> tuple[str, str]:
    """The trace and the correlation id of the current run; empty if there is none."""
    run = current_run.get(None)
    if run is None:
        return "", ""
    if run.topic is None:
        return run.headers.get(TRACEPARENT, ""), run.headers.get(CORRELATION_ID, "")
    event = decode_event(run.claim.body)
    return event.traceparent, event.correlation_id or event.id
