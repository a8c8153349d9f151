"""A task as its app knows it: its options, and how its arguments and results become bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from headrace.core.encoding import encoding
from headrace.core.encoding.codec import AppCodec, BindingCodec, binding, check_id, form_of, unwrapped
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.encoding.upcasts import Upcasts
from headrace.core.errors import ConfigurationError, InvalidPayload, UnverifiedPayload
from headrace.core.messages.associated_data import arguments_data, result_data
from headrace.core.messages.message import PRIORITIES, Envelope, Stream
from headrace.core.values.names import PATTERN
from headrace.engine.declared.registry import Decode, EncodeArguments
from headrace.engine.running.children.main_module import MainModule
from headrace.jobs.options import TaskOptions
from headrace.jobs.payload.arguments import Arguments
from headrace.jobs.payload.versions import Upcast, VersionedArguments

from .call_constraints import CallConstraints, QueueLimits


class Declared:
    """The options of one task, and the encoding of its arguments and results."""

    def __init__(
        self,
        options: TaskOptions,
        arguments: Arguments,
        result_ttl: float,
        codec: AppCodec | None,
        queues: QueueLimits,
        *,
        validate: bool = False,
    ) -> None:
        self.options = options
        self.arguments = arguments
        self.upcasts: Upcasts[Upcast] = (
            arguments.upcasts if isinstance(arguments, VersionedArguments) else Upcasts(options.name, 1)
        )
        self.result_ttl = result_ttl
        self.stream: Stream = Stream("queue", options.queue)
        self.priority: int = PRIORITIES[options.priority]
        self.child: bool = options.run_in == "process"
        self._codec = codec
        #: The codec, if it needs the message of a payload. Then `encode` does not wrap: `bind` does.
        self.binding: BindingCodec | None = binding(codec)
        self.constraints: CallConstraints = CallConstraints(
            options, arguments.signature, self.binding, queues
        )
        self.plain: bool = self.is_plain()
        wraps = codec is not None and self.binding is None
        # From arguments to the bytes that are stored, and back.
        self._encode: EncodeArguments = arguments.checked_encoder() if validate else arguments.encode
        self.encode: EncodeArguments = self._encode_wrapped if wraps else self._encode
        self.decode: Decode = arguments.decode if codec is None else self._decode_wrapped

    def is_plain(self) -> bool:
        """Whether a call without options needs nothing but its arguments."""
        options, constrained = self.options, self.constraints.is_used(self.options.queue)
        unique = options.unique or options.debounce is not None
        return not (unique or options.expires or self.binding is not None or constrained)

    def bind(self, payload: bytes, id: str, headers: Mapping[str, str] | None) -> bytes:
        """The encoded arguments for the message with this id, as its codec has them."""
        if self.binding is None:
            return payload
        return self.binding.encode_for(payload, arguments_data(id, self.options.name, headers))

    def decode_bound(self, id: str, envelope: Envelope) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the message with this id, from its codec."""
        if self.binding is None:
            return self.decode(envelope.payload)
        return self.arguments.decode(self.verified(self.binding, id, envelope))

    def verified(self, codec: BindingCodec, id: str, envelope: Envelope) -> bytes:
        """The encoded arguments; `UnverifiedPayload` when the message is not as it was made."""
        if envelope.id:  # else it may have replaced another message, and is bound to no id
            check_id(id, envelope.id)
        associated = arguments_data(envelope.id, envelope.task, envelope.headers)
        return codec.decode_for(envelope.payload, associated)

    def encode_result(self, value: object, id: str) -> bytes:
        encoded = encoding.encode(value)
        if self._secret_result:
            # Encoded once more through the type: the type may say that a plain value is a secret.
            encoded = encoding.encode(decoded(self._result_decoder, encoded, self.options.name))
        if self.binding is not None:
            return self.binding.encode_for(encoded, result_data(id, self.options.name))
        return encoded if self._codec is None else self._wrap(encoded)

    def decode_result(self, result: bytes, id: str) -> Any:
        """A stored result of the job with this id, in the type that the function is annotated to return."""
        payload = opened_result(result, self._codec, id, self.options.name)
        return decoded(self._result_decoder, payload, self.options.name)

    def _encode_wrapped(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        return self._wrap(self._encode(args, kwargs))

    def _decode_wrapped(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.binding is not None:
            raise UnverifiedPayload("the message of this payload is not known: use decode_bound")
        return self.arguments.decode(unwrapped(payload, self._codec))

    def _wrap(self, payload: bytes) -> bytes:
        codec = self._codec
        return payload if codec is None or isinstance(codec, BindingCodec) else codec.encode(payload)

    @cached_property
    def _secret_result(self) -> bool:
        return encoding.holds_secrets(self.arguments.hints.get("return", Any))

    @cached_property
    def _result_decoder(self) -> msgspec.msgpack.Decoder[Any]:
        return encoding.decoder(self.arguments.hints.get("return", Any))


def opened_result(result: bytes, codec: AppCodec | None, id: str, task: str) -> bytes:
    """A stored result without its codec."""
    return result if codec is None else unwrapped(result, codec, result_data(id, task))


def decoded(decoder: msgspec.msgpack.Decoder[Any], result: bytes, task: str) -> Any:
    """The value of a result; `InvalidPayload` when the bytes do not fit the type."""
    try:
        return decoder.decode(result)
    except DECODE_ERRORS as error:
        if form := form_of(result):
            raise InvalidPayload(
                f"the result of {task} is {form}, and no codec is known here: use the app that made it"
            ) from error
        raise InvalidPayload(f"a stored result of {task} does not fit its return type: {error}") from error


def default_name(function: Callable[..., Any]) -> str:
    """`module.qualname`. A script's `__main__` gets the name of its file, under which others import it."""
    module = function.__module__
    if module == "__main__":
        module = MainModule.here().name
    name = f"{module}.{function.__qualname__}".replace("<locals>.", "")
    if not PATTERN.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is too long or not allowed as the name of a task: give it a name with name="
        )
    return name
