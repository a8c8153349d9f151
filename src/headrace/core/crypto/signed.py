"""Signs payloads with HMAC-SHA256."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import UnverifiedPayload

from .keys import HEAD_SIZE, KeyRing

#: Bytes of a signature.
SIGNATURE_SIZE = 32


class SignedCodec(BindingCodec):
    """Signs arguments, results and events: `App(url, codec=SignedCodec(keys))`.

    `keys` is a key of `headrace keys new`, or several: a list, or one text with commas. The first key signs,
    and all of them verify. A message without a valid signature goes to the dead letters. The signature also
    covers the id, the task and the headers, so a payload is valid in its own message only. Payloads stay
    readable in the store.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self._keys = KeyRing(keys, "signature", "S")
        self._head = self._keys.head

    def __repr__(self) -> str:
        return f"<SignedCodec with keys {self._keys!r}>"

    def encode_for(self, payload: bytes, associated: bytes, /) -> bytes:
        return self._head + self._keys.first.digest(_signed(associated, payload)) + payload

    def decode_for(self, data: bytes, associated: bytes, /) -> bytes:
        key = self._keys.key_of(data)
        signature, payload = data[HEAD_SIZE : HEAD_SIZE + SIGNATURE_SIZE], data[HEAD_SIZE + SIGNATURE_SIZE :]
        if not hmac.compare_digest(signature, key.digest(_signed(associated, payload))):
            raise UnverifiedPayload(
                f"the signature by key {key.name} does not fit: the payload was changed, or it belongs to "
                "another message"
            )
        return payload


def _signed(associated: bytes, payload: bytes) -> bytes:
    """The bytes that are signed. They begin with a length, so that no byte can move from one field to the
    other."""
    return len(associated).to_bytes(4, "big") + associated + payload
