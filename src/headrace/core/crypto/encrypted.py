"""Encrypts payloads with AES-256-GCM, which also detects every change."""

from __future__ import annotations

import os
from collections.abc import Sequence

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import ConfigurationError, UnverifiedPayload

from .keys import HEAD_SIZE, KeyRing

#: Random bytes of a payload: from the first half its own key is derived, the second half is the nonce. With
#: one key for all, random nonces of 12 bytes would be safe for 2**32 payloads only, which is a few days of a
#: busy queue.
SALT_SIZE, NONCE_SIZE = 12, 12

#: Where the encrypted bytes begin.
_START = HEAD_SIZE + SALT_SIZE + NONCE_SIZE


class EncryptedCodec(BindingCodec):
    """Encrypts arguments, results and events: `App(url, codec=EncryptedCodec(keys))`. Needs
    `headrace[crypto]`.

    `keys` is a key of `headrace keys new`, or several: a list, or one text with commas. The first key
    encrypts, and all of them decrypt. A message that was changed, or that is not encrypted, goes to the dead
    letters. Each payload is bound to the id, the task and the headers of its message, which stay readable.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "EncryptedCodec needs cryptography, which is not installed: pip install 'headrace[crypto]'"
            ) from error
        self._keys = KeyRing(keys, "encryption", "E")
        self._fingerprints = KeyRing(keys, "fingerprint", "E").first
        self._head = self._keys.head
        self._cipher, self._invalid = AESGCM, InvalidTag

    def __repr__(self) -> str:
        return f"<EncryptedCodec with keys {self._keys!r}>"

    def encode_for(self, payload: bytes, associated: bytes, /) -> bytes:
        salt, nonce = os.urandom(SALT_SIZE), os.urandom(NONCE_SIZE)
        cipher = self._cipher(self._keys.first.digest(salt))
        return self._head + salt + nonce + cipher.encrypt(nonce, payload, associated)

    def decode_for(self, data: bytes, associated: bytes, /) -> bytes:
        key = self._keys.key_of(data)
        salt, nonce = data[HEAD_SIZE : HEAD_SIZE + SALT_SIZE], data[HEAD_SIZE + SALT_SIZE : _START]
        try:
            return self._cipher(key.digest(salt)).decrypt(nonce, data[_START:], associated)
        except (self._invalid, ValueError):  # ValueError: a nonce that was cut off
            raise UnverifiedPayload(
                f"the payload cannot be decrypted with key {key.name}: it was changed, or it belongs to "
                "another message"
            ) from None

    def fingerprint(self, payload: bytes, /) -> str:
        # Without a key, a reader of the store could try out arguments until the fingerprint is the same.
        return self._fingerprints.digest(payload)[:16].hex()
