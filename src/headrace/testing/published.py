"""Decodes the events that were published, for the assertions of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.app import App
from headrace.core.encoding import encoding
from headrace.core.encoding.codec import unwrapped
from headrace.core.messages.associated_data import event_data
from headrace.core.messages.event_envelope import decode_event
from headrace.events.event import Event, event_of

from .enqueued import LISTED, shortened
from .store import Appended


def published_event(app: App, appended: Appended) -> Event[Any]:
    """The event of a message that a topic took, as handlers see it."""
    message, name = appended.message, appended.stream.name
    envelope = decode_event(message.body)
    topic = app._events.topics.get(name)
    decoder = encoding.decoder(Any if topic is None else topic.wanted)
    payload = decoder.decode(unwrapped(envelope.payload, app._events._codec, event_data(name, envelope)))
    began_us = appended.due_us or envelope.enqueued_us
    expires_us = began_us + message.lifetime_us if message.lifetime_us else 0
    return event_of(envelope, name, payload, expires_us)


def list_of_events(events: Sequence[Event[Any]]) -> str:
    """The events, one line each, for the message of a failed assertion."""
    if not events:
        return "nothing was published"
    lines = [f"\n  {shortened(event.payload)} to {event.topic}" for event in events[:LISTED]]
    more = f"\n  … and {len(events) - LISTED} more" if len(events) > LISTED else ""
    return "published were:" + "".join(lines) + more
