"""Turns a function into the handler of a subscription. The annotation of its first parameter says what it
takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args, get_origin

import msgspec

from headrace.core.encoding import encoding
from headrace.core.encoding.annotations import hints_of
from headrace.core.encoding.codec import AppCodec, BindingCodec, binding, check_id, unwrapped
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.associated_data import event_data
from headrace.core.messages.event_envelope import decode_event
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.engine.declared.registry import Handler
from headrace.engine.declared.subscription import SubscriptionOptions
from headrace.engine.running.injection.dependencies import asked_of_callers, needs_of
from headrace.engine.running.injection.injection import provided
from headrace.engine.running.run import Run

from .delivery import Delivery
from .event import Event, event_of
from .versions import EventVersions

if TYPE_CHECKING:
    from headrace.engine.settling.manual_acks import ManualAcks

#: What a handler takes: the payload, the event, or the delivery.
Form = Literal["payload", "event", "delivery"]


class EventReader:
    """Reads events for one function: decodes the payload into its type, and gives the function what it
    takes."""

    def __init__(
        self,
        function: Callable[..., Any],
        wanted: Any,
        options: SubscriptionOptions,
        codec: AppCodec | None,
        local_names: Mapping[str, Any],
        versions: EventVersions | None = None,
    ) -> None:
        self._versions = versions
        if not hasattr(inner := _inner(function), "__qualname__"):
            raise ConfigurationError(f"a handler is a function, not {function!r}")
        self._function = inner
        self._name = inner.__qualname__
        self._parameter = _only_parameter(function)
        self._wanted = wanted
        self._batch = options.batch is not None
        self._settled = options.ack == "receipt" or options.fan_out
        self._binding = binding(codec)
        self._codec = None if isinstance(codec, BindingCodec) else codec
        self._local_names = local_names
        self._manual = options.ack == "manual"

    def check(self) -> None:
        """Do what `resolve` does, unless an annotation names something that is defined later."""
        try:
            hints_of(self._function, self._local_names)
        except ConfigurationError:
            return
        self.resolve()

    def resolve(self) -> None:
        """Check the annotations now, so that wrong ones are found before the first event."""
        _ = self._decoder, self.form
        if self._manual and self.form != "delivery":
            raise ConfigurationError(
                f"{self._name} has ack='manual': it must take a Delivery[...] and settle it"
            )
        if self._batch and self.form == "delivery":
            raise ConfigurationError(
                f"{self._name} has batch=: it takes a list of payloads or of Event[...]. To settle single "
                "events separately, it returns a BatchResult"
            )

    def fit(self, run: Run, acks: ManualAcks) -> tuple[Any, ...]:
        """The argument for a run; `InvalidPayload` when the bytes do not fit the type."""
        run.settled = self._settled
        binding = self._binding
        data = run.envelope.payload if binding is None else self._verified(run, binding)
        if self._versions is not None and self._evolves:
            return self._brought(run, acks, data, self._versions)
        payload = self._payload(data)
        if self.form == "payload":
            return (payload,)
        claim = run.claim
        event = event_of(decode_event(claim.body), claim.whole.topic, payload, claim.expires_us)
        return (event,) if self.form == "event" else (Delivery(event, run, acks),)

    def _brought(self, run: Run, acks: ManualAcks, data: bytes, versions: EventVersions) -> tuple[Any, ...]:
        """The argument for a run, in a schema version that the subscription takes."""
        claim = run.claim
        envelope, topic = decode_event(claim.body), claim.whole.topic
        data, version = versions.brought(envelope, topic, unwrapped(data, self._codec))
        payload = self._decoded(data)
        if self.form == "payload":
            return (payload,)
        envelope = msgspec.structs.replace(envelope, schema_version=version)
        event = event_of(envelope, topic, payload, claim.expires_us)
        return (event,) if self.form == "event" else (Delivery(event, run, acks),)

    @cached_property
    def _evolves(self) -> bool:
        # Upcasts are declared before the first worker starts.
        return self._versions is not None and self._versions.matter

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a handler that takes the payload alone."""
        if self._binding is not None:
            raise UnverifiedPayload("the event of this payload is not known: use fit")
        return (self._payload(payload),), {}

    def _verified(self, run: Run, codec: BindingCodec) -> bytes:
        """The encoded payload; `UnverifiedPayload` when the event is not as it was published."""
        claim, event = run.claim, decode_event(run.claim.body)
        check_id(claim.id, event.id)
        return codec.decode_for(event.payload, event_data(claim.whole.topic, event))

    def _payload(self, payload: bytes) -> Any:
        return self._decoded(unwrapped(payload, self._codec))

    def _decoded(self, data: bytes) -> Any:
        try:
            return self._decoder.decode(data)
        except DECODE_ERRORS as error:
            raise InvalidPayload(f"the event does not fit {self._name}: {error}") from error

    @cached_property
    def form(self) -> Form:
        origin = get_origin(self._annotation) or self._annotation
        return "event" if origin is Event else "delivery" if origin is Delivery else "payload"

    @cached_property
    def _annotation(self) -> Any:
        """The annotation of one event."""
        hint = hints_of(self._function, self._local_names).get(self._parameter, Any)
        if not self._batch or hint is Any:
            return hint
        if get_origin(hint) is not list:
            raise ConfigurationError(
                f"{self._name} has batch= and must take a list[...] of events, not {hint}"
            )
        return get_args(hint)[0]

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[Any]:
        return encoding.decoder(self._payload_type)

    @cached_property
    def _payload_type(self) -> Any:
        """The type of the topic; when it has none, the type that the function is annotated with."""
        if self._wanted is not Any:
            return self._wanted
        if self.form == "payload":
            return self._annotation
        return (get_args(self._annotation) or (Any,))[0]


def handler_of(
    function: Callable[..., Any],
    reader: EventReader,
    name: str,
    retry: RetryPolicy | RetryFunction,
    *,
    batch: bool,
) -> Handler:
    """The handler of a subscription."""
    is_async = inspect.iscoroutinefunction(function)
    needs = needs_of(function)
    return Handler(
        name=name,
        queue="",
        function=provided(function, needs) if needs else function,
        run_in="loop" if is_async else "thread",
        decode=reader.decode,
        encode=_no_result,
        decode_result=_no_result,
        retry=retry,
        timeout=None,
        result_ttl=0.0,
        fit=reader.fit,
        batch=batch,
    )


def _no_result(value: object, id: str) -> NoReturn:
    raise TypeError("the handler of an event has no result")


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a `functools.partial`: this function has the annotations."""
    while isinstance(function, partial):
        function = function.func
    return function


def _only_parameter(function: Callable[..., Any]) -> str:
    """The name of the parameter that takes the event. All others must be dependencies or have a default."""
    parameters = list(asked_of_callers(inspect.signature(function)).parameters.values())
    first = next((each for each in parameters if each.kind is not Parameter.KEYWORD_ONLY), None)
    others = [each for each in parameters if each is not first and each.default is Parameter.empty]
    others = [each for each in others if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    if first is None or others:
        raise ConfigurationError(
            f"{getattr(function, '__qualname__', function)} must take one argument: the event, its payload, "
            "or its delivery"
        )
    return first.name
