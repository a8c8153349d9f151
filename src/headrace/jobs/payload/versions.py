"""The arguments of a task with a version: `[args, kwargs, version]`.

Arguments of version 1 have no number. So tasks without a version pay nothing, and a worker knows arguments
that were sent before the task had one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.core.encoding import encoding
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.encoding.upcasts import Upcasts
from headrace.core.errors import InvalidPayload, NewerVersion

from .arguments import NO_KWARGS, ONLY_POSITIONAL, WITH_VERSION, Arguments, VersionedParts, read_parts

#: Leads the arguments of a task from one version to the next. It takes and gives plain data.
Upcast = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]

_args = encoding.decoder(tuple[Any, ...])
_kwargs = encoding.decoder(dict[str, Any])


class VersionedArguments(Arguments):
    """Encodes arguments with the version of the task, and decodes those of older versions through upcasts."""

    def __init__(
        self, function: Callable[..., Any], local_names: Mapping[str, Any], upcasts: Upcasts[Upcast]
    ) -> None:
        super().__init__(function, local_names)
        self.upcasts = upcasts
        self._number = encoding.encode(upcasts.newest)
        self._quick = upcasts.newest == 1

    @property
    def nothing(self) -> bytes | None:
        return None

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, ordered: bool = False) -> bytes:
        payload = super().encode(args, kwargs, ordered=ordered)
        if self.upcasts.newest == 1:
            return payload
        kwargs_too = NO_KWARGS if payload[0] == ONLY_POSITIONAL else b""
        return b"".join((WITH_VERSION, payload[1:], kwargs_too, self._number))

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        parts = self._read(payload)
        if parts.version > self.upcasts.newest:
            raise NewerVersion(
                f"the arguments have version {parts.version}, and {self._function.__qualname__} of this "
                f"worker knows version {self.upcasts.newest}"
            )
        if self.upcasts.newest == 1:
            return super().decode(payload)
        if parts.version < self.upcasts.newest:
            return super().decode(self._upcast(parts))
        plain = bytes(parts.kwargs) == NO_KWARGS
        return super().decode(
            b"\x91" + bytes(parts.args) if plain else b"\x92" + bytes(parts.args) + bytes(parts.kwargs)
        )

    def _read(self, payload: bytes) -> VersionedParts:
        try:
            return read_parts(payload)
        except DECODE_ERRORS as error:
            self._refuse(error)

    def _upcast(self, parts: VersionedParts) -> bytes:
        """The payload of older arguments as this version has it."""
        reached = parts.version
        name = self._function.__qualname__
        try:
            args, kwargs = _args.decode(parts.args), _kwargs.decode(parts.kwargs)
            for upcast, version in self.upcasts.steps(parts.version):
                given, named = upcast(args, kwargs)
                args, kwargs, reached = tuple(given), dict(named), version
            payload = encoding.encode((args, kwargs) if kwargs else (args,))
        except Exception as error:
            raise InvalidPayload(
                f"the arguments of version {parts.version} cannot be brought to the version of {name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if reached < self.upcasts.newest:
            raise InvalidPayload(
                f"no upcast of {name} leads from version {reached} to {reached + 1}: declare one with "
                f"@task.upcast(from_version={reached})"
            )
        return payload
