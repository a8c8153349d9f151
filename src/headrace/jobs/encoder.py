"""Turns a call into the message that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
from msgspec import UNSET

from headrace.core.encoding.codec import fingerprint
from headrace.core.errors import PayloadTooLarge
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    ENVELOPE_ROOM,
    ENVELOPE_VERSION,
    GIVEN_KEY,
    PRIORITIES,
    Envelope,
    Message,
    Stream,
    UniqueKey,
    encode_envelope,
)
from headrace.core.messages.overrides import Overrides
from headrace.core.runtime.clock import SECOND, TimeSource, microseconds
from headrace.jobs.declaring.declared import Declared

from .options import AS_DECLARED, CallOptions
from .repetition import Repetition, repetition_of
from .task import Call

_streams: dict[str, Stream] = {}
_STREAMS_MOST = 10_000


class CheckedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that has passed every check. The message of a call with options is made at once, that of a plain
    call later."""

    stream: Stream
    declared: Declared
    payload: bytes
    message: Message | None = None


class JobEncoder:
    """Makes messages: encodes the arguments once, checks the size and applies the options of the call."""

    def __init__(self, *, clock: TimeSource, max_payload: int, end_record_ttl: float) -> None:
        self._clock = clock
        self._expired_ttl_us = microseconds(end_record_ttl)
        self._max_payload = max_payload

    def encode(self, call: Call[Any], declared: Declared) -> tuple[Stream, Message]:
        """The message of a call, and the stream of its queue."""
        payload = declared.encode(call.args, call.kwargs)
        if len(payload) > self._max_payload:
            self._refuse(declared, payload)
        if call.options is AS_DECLARED and declared.plain:
            return declared.stream, self._plain(declared, payload)
        return self._with_options(call, declared, payload)

    def check(self, call: Call[Any], declared: Declared) -> CheckedCall:
        """Check one of many calls, and encode its arguments. When one call is wrong, none is stored. `finish`
        makes the message."""
        payload = self.payload(declared, call.args, call.kwargs)
        if call.options is AS_DECLARED and declared.plain:
            return CheckedCall(declared.stream, declared, payload)
        stream, message = self._with_options(call, declared, payload)
        return CheckedCall(stream, declared, payload, message)

    def finish(self, call: CheckedCall) -> Message:
        """The message of a call that was checked."""
        return call.message or self._plain(call.declared, call.payload)

    def _plain(self, declared: Declared, payload: bytes) -> Message:
        id, task = new_id(), declared.options.name
        envelope = Envelope(ENVELOPE_VERSION, id, task, self._clock.now_us(), None, None, payload)
        body = encode_envelope(envelope)
        return Message(id, task, body, declared.priority, fresh=True, child=declared.child)

    def payload(self, declared: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The arguments as bytes; `PayloadTooLarge` when they exceed `max_payload`."""
        payload = declared.encode(args, kwargs)
        if len(payload) > self._max_payload:
            self._refuse(declared, payload)
        return payload

    def _bound(self, declared: Declared, payload: bytes, id: str, headers: Mapping[str, str] | None) -> bytes:
        payload = declared.bind(payload, id, headers)
        if len(payload) > self._max_payload:
            self._refuse(declared, payload)
        return payload

    def payload_for(
        self, declared: Declared, envelope: Envelope, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bytes:
        """New arguments for a message that is stored."""
        payload = self.payload(declared, args, kwargs)
        return self._bound(declared, payload, envelope.id, envelope.headers)

    def _refuse(self, declared: Declared, payload: bytes) -> NoReturn:
        raise PayloadTooLarge(
            f"the arguments of {declared.options.name} have {len(payload):,} bytes, more than the "
            f"{self._max_payload:,} allowed: send a reference instead, or raise max_payload on both ends"
        )

    def _with_options(self, call: Call[Any], declared: Declared, payload: bytes) -> tuple[Stream, Message]:
        task, options = declared.options, call.options
        id = new_id() if options.job_id is UNSET else options.job_id
        headers = None if options.headers is UNSET else options.headers
        repetition = repetition_of(task, options)
        # A message that may replace another one gets the id of that one. So its envelope names no id.
        written = "" if repetition.on_duplicate == "replace" else id
        if declared.binding is not None:
            payload = self._bound(declared, payload, written, headers)
        now_us, delay_us = self._clock.now_us(), _delay_us(options) + repetition.delay_us
        overrides = _overrides(options, now_us, delay_us)
        envelope = Envelope(ENVELOPE_VERSION, written, task.name, now_us, headers, overrides, payload)
        body = encode_envelope(envelope)
        if len(body) - len(payload) > ENVELOPE_ROOM:
            raise PayloadTooLarge(
                f"the headers of a call of {task.name} have more than the {ENVELOPE_ROOM:,} bytes allowed: "
                "send large values as arguments"
            )
        expires = task.expires if options.expires is UNSET else options.expires
        stream = queue_stream(task.queue if options.queue is UNSET else options.queue)
        constraints = declared.constraints
        return stream, Message(
            id,
            task.name,
            body,
            PRIORITIES[task.priority if options.priority is UNSET else options.priority],
            delay_us=delay_us,
            due_us=_due_us(options),
            lifetime_us=microseconds(expires) if expires else 0,
            unique=_unique_key(call, declared, repetition),
            fresh=options.job_id is UNSET,
            key=constraints.order_key(call.args, call.kwargs, options),
            child=declared.child,
            constraints=constraints.of(stream.name, call.args, call.kwargs, options),
            expired_ttl_us=self._expired_ttl_us,
            on_duplicate=repetition.on_duplicate,
        )


def queue_stream(queue: str) -> Stream:
    """The stream of a queue. The streams of the queues in use are kept, so that few are made."""
    found = _streams.get(queue)
    if found is None:
        if len(_streams) >= _STREAMS_MOST:
            _streams.clear()
        found = _streams[queue] = Stream("queue", queue)
    return found


def _overrides(options: CallOptions, now_us: int, delay_us: int) -> Overrides | None:
    retry = None if options.retry is UNSET else options.retry
    timeout = None if options.timeout is UNSET else options.timeout
    result_ttl = None if options.result_ttl is UNSET else options.result_ttl
    due_us = max(_due_us(options), now_us + delay_us) if delay_us or _is_delayed(options) else 0
    ordered = options.order_key is not UNSET
    if retry is None and timeout is None and result_ttl is None and not due_us and not ordered:
        return None
    return Overrides(retry, timeout, result_ttl, due_us, ordered)


def _is_delayed(options: CallOptions) -> bool:
    return options.delay is not UNSET or options.at is not UNSET


def _delay_us(options: CallOptions) -> int:
    return 0 if options.delay is UNSET else microseconds(options.delay)


def _due_us(options: CallOptions) -> int:
    return 0 if options.at is UNSET else round(options.at.timestamp() * SECOND)


def _unique_key(call: Call[Any], declared: Declared, repetition: Repetition) -> UniqueKey | None:
    given = call.options.unique_key
    if not repetition.unique:
        return None
    if given is UNSET:
        payload = declared.arguments.encode(call.args, call.kwargs, ordered=True)
        binding = declared.binding
        digest = fingerprint(payload) if binding is None else binding.fingerprint(payload)
        key = f"arguments:{declared.options.name}:{digest}"
    else:
        key = f"{GIVEN_KEY}{given}"
    return repetition.unique_key(key)
