"""A task as its app knows it: its options, and how its arguments and results become bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError, InvalidPayload
from headrace.core.messages.message import PRIORITIES, Stream
from headrace.core.values import encoding
from headrace.core.values.codec import Codec, unwrapped
from headrace.core.values.decoding import DECODE_ERRORS
from headrace.core.values.names import PATTERN
from headrace.engine.registry import Decode
from headrace.engine.running.children.main_module import MainModule

from .arguments import Arguments
from .options import TaskOptions

#: Arguments to the bytes that are stored.
Encode = Callable[[tuple[Any, ...], dict[str, Any]], bytes]


class Declared:
    """The options of one task, and the encoding of its arguments and results."""

    def __init__(
        self, options: TaskOptions, arguments: Arguments, result_ttl: float, codec: Codec | None
    ) -> None:
        self.options = options
        self.arguments = arguments
        self.result_ttl = result_ttl
        self.stream: Stream = Stream("queue", options.queue)
        self.priority: int = PRIORITIES[options.priority]
        self.child: bool = options.run_in == "process"
        self.plain: bool = not options.unique and not options.expires
        self._codec = codec
        # From arguments to the bytes that are stored, and back.
        self.encode: Encode = arguments.encode if codec is None else self._encode_wrapped
        self.decode: Decode = arguments.decode if codec is None else self._decode_wrapped

    def encode_result(self, value: object) -> bytes:
        encoded = encoding.encode(value)
        if self._secret_result:
            # Encoded once more through the type: the type may say that a plain value is a secret.
            encoded = encoding.encode(decoded(self._result_decoder, encoded, self.options.name))
        return self._wrap(encoded)

    def decode_result(self, result: bytes) -> Any:
        """A stored result in the type that the function is annotated to return."""
        return decoded(self._result_decoder, unwrapped(result, self._codec), self.options.name)

    def _encode_wrapped(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        return self._wrap(self.arguments.encode(args, kwargs))

    def _decode_wrapped(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.arguments.decode(unwrapped(payload, self._codec))

    def _wrap(self, payload: bytes) -> bytes:
        return payload if self._codec is None else self._codec.encode(payload)

    @cached_property
    def _secret_result(self) -> bool:
        return encoding.holds_secrets(self.arguments.hints.get("return", Any))

    @cached_property
    def _result_decoder(self) -> msgspec.msgpack.Decoder[Any]:
        return encoding.decoder(self.arguments.hints.get("return", Any))


def decoded(decoder: msgspec.msgpack.Decoder[Any], result: bytes, task: str) -> Any:
    """The value of a result; `InvalidPayload` when the bytes do not fit the type."""
    try:
        return decoder.decode(result)
    except DECODE_ERRORS as error:
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
