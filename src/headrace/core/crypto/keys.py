"""The keys of signing and encrypting codecs: made, read from text, and found by their ids.

A key is the text `hrk_<id>_<secret>`. The id is computed from the secret, so a mistyped key is noticed. The
id is public: it is stored with each message. The secret never appears in a text of headrace.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from headrace.core.encoding.codec import BOUND_FORMS, BOUND_MARK, form_of
from headrace.core.errors import ConfigurationError, UnverifiedPayload

#: Bytes of a secret, and of an id.
SECRET_SIZE, ID_SIZE = 32, 4

#: Bytes before the rest of a bound payload: the mark, the form and the id of the key.
HEAD_SIZE: Final = 2 + ID_SIZE

_KEY = re.compile(r"hrk_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")


def new_key() -> str:
    """A new random key."""
    secret = secrets.token_bytes(SECRET_SIZE)
    text = base64.urlsafe_b64encode(secret).decode().rstrip("=")
    return f"hrk_{_id_of(secret).hex()}_{text}"


class Key:
    """One key for one purpose. Its text shows the id alone."""

    __slots__ = ("_derived", "id")

    def __init__(self, secret: bytes, purpose: str) -> None:
        self.id: bytes = _id_of(secret)
        # One key may serve several codecs: each purpose uses another secret.
        self._derived = hmac.digest(secret, f"headrace {purpose}".encode(), "sha256")

    @property
    def name(self) -> str:
        """The id as people read it."""
        return self.id.hex()

    def digest(self, data: bytes) -> bytes:
        """The HMAC-SHA256 of the data."""
        return hmac.digest(self._derived, data, "sha256")

    def __repr__(self) -> str:
        return f"<Key {self.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a codec holds keys, so it is not pickled: make one from the keys where it is needed")


class KeyRing:
    """The keys of a codec. The first one makes new payloads; all of them read."""

    def __init__(self, keys: str | Sequence[str], purpose: str, form: str) -> None:
        read = [Key(secret, purpose) for secret in _secrets(keys)]
        self.first: Key = read[0]
        self._form = ord(form)
        self._by_id = {key.id: key for key in read}
        if len(self._by_id) < len(read):
            raise ConfigurationError("a codec has the same key twice: name each key once")

    def __repr__(self) -> str:
        return ", ".join(key.name for key in self._by_id.values())

    @property
    def head(self) -> bytes:
        """How each new payload begins."""
        return bytes((BOUND_MARK, self._form)) + self.first.id

    def key_of(self, data: bytes) -> Key:
        """The key that made these bytes. `UnverifiedPayload`: they have another form, or the key is not
        here."""
        wanted, found = BOUND_FORMS[self._form], form_of(data)
        if found != wanted or len(data) < HEAD_SIZE:
            raise UnverifiedPayload(
                f"the payload is {found}, not {wanted}: another codec made it"
                if found and found != wanted
                else f"the payload is not {wanted}: its sender has another codec or none, or it was changed"
            )
        id = data[2:HEAD_SIZE]
        key = self._by_id.get(id)
        if key is None:
            raise UnverifiedPayload(
                f"the payload is {wanted} with key {id.hex()}, which this app does not have (it has "
                f"{self!r}): add that key to the codec, then replay the message"
            )
        return key


def _secrets(keys: object) -> Iterator[bytes]:
    texts = keys.replace(",", " ").split() if isinstance(keys, str) else keys
    if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
        raise ConfigurationError(
            "keys are one text or a list of texts, as `headrace keys new` prints them, not "
            f"a {type(keys).__name__}"
        )
    if not texts:
        raise ConfigurationError("a codec needs at least one key: `headrace keys new` prints one")
    for number, text in enumerate(texts, 1):
        yield _secret(text, f"key {number} of {len(texts)}")


def _secret(text: object, which: str) -> bytes:
    """The secret of a key. No error shows the text, not even a wrong one: it may be a key with a typo."""
    if not isinstance(text, str):
        raise ConfigurationError(f"{which} is a {type(text).__name__}, not a text")
    found = _KEY.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(
            f"{which} is no key: a key is hrk_, 8 characters, _ and 43 characters, as `headrace keys new` "
            f"prints it; this text has {len(text.strip())} characters"
        )
    secret = base64.urlsafe_b64decode(found[2] + "=")
    if _id_of(secret).hex() != found[1]:
        raise ConfigurationError(f"{which} is damaged: its id {found[1]} does not belong to its secret")
    return secret


def _id_of(secret: bytes) -> bytes:
    return hashlib.sha256(b"headrace key id\0" + secret).digest()[:ID_SIZE]
