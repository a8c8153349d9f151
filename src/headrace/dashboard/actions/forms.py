"""The fields of a form, within limits of size and time."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from headrace.core.errors import ConfigurationError

#: Bytes and fields of a form. Edited arguments may be long.
MOST_BYTES = 4 << 20
MOST_FIELDS = 2000

#: Seconds within which all of it must arrive.
MOST_SECONDS = 30.0


class FormFields:
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str, otherwise: str = "") -> str:
        return next((value for key, value in self._pairs if key == name), otherwise)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]


async def fields_of(request: Request, most_bytes: int = MOST_BYTES) -> FormFields:
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise ConfigurationError("the request is not a form")
    body = await _body_of(request, most_bytes)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError("the form cannot be read") from error
    return FormFields(pairs)


async def _body_of(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise ConfigurationError("the form is too long")
    except TimeoutError as error:
        raise ConfigurationError(f"the form did not arrive within {MOST_SECONDS:g} seconds") from error
    except ClientDisconnect as error:
        raise ConfigurationError("the form was cut off") from error
    return bytes(body)
