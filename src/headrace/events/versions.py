"""The schema versions of events: which ones a subscription takes, and how older ones are brought to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.encoding import encoding
from headrace.core.errors import InvalidPayload, NewerVersion
from headrace.core.messages.event_envelope import EventEnvelope

if TYPE_CHECKING:
    from .topic import Topic

#: Leads the payload of an event from one version to the next. It takes and gives plain data.
PayloadUpcast = Callable[[Any], Any]

_anything = encoding.decoder(Any)


class EventVersions:
    """The versions that one subscription takes; None: all. `topics` are those of the app, with their
    upcasts."""

    def __init__(self, topics: Mapping[str, Topic[Any]], accepted: frozenset[int] | None) -> None:
        self._topics = topics
        self._accepted = accepted

    @property
    def matter(self) -> bool:
        """Whether the version of an event makes a difference."""
        return self._accepted is not None or any(topic.upcasts for topic in self._topics.values())

    def brought(self, event: EventEnvelope, topic: str, data: bytes) -> tuple[bytes, int]:
        """The payload in the latest version that upcasts lead to and the subscription takes."""
        declared = self._topics.get(topic)
        version = event.schema_version
        upcasts = None if declared is None or not declared.upcasts else declared.upcasts
        if self._accepted is None and upcasts is not None and version > upcasts.newest:
            raise NewerVersion(
                f"the event has schema version {version}; topic {topic} of this worker has {upcasts.newest}"
            )
        forms = [(None, version)] if upcasts is None else [(None, version), *upcasts.steps(version)]
        wanted = [number for _, number in forms if self._accepted is None or number in self._accepted]
        if not wanted:
            raise InvalidPayload(self._refusal(version))
        if wanted[-1] == version:
            return data, version
        return _upcast(data, [(step, number) for step, number in forms[1:] if number <= wanted[-1]])

    def _refusal(self, version: int) -> str:
        accepted = ", ".join(map(str, sorted(self._accepted or ())))
        return (
            f"the event has schema version {version}, and this subscription takes {accepted}: add it to "
            f"schema_versions, or declare @topic.upcast(from_version={version})"
        )


def _upcast(data: bytes, steps: list[tuple[Any, int]]) -> tuple[bytes, int]:
    value, version = _anything.decode(data), 0
    for step, number in steps:
        try:
            value, version = step(value), number
        except Exception as error:
            raise InvalidPayload(
                f"the event cannot be brought to schema version {number}: {type(error).__name__}: {error}"
            ) from error
    return encoding.encode(value), version
