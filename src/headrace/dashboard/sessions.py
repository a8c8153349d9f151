"""Logins by password: signed cookies, and a bound on guessing."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Final

COOKIE: Final = "headrace_session"

#: Seconds that a login holds.
SESSION: Final = 12 * 3600

#: Wrong passwords within a minute after which nobody may try for the rest of it.
ATTEMPTS: Final = 10


class Sessions:
    """A cookie is a time and its signature. The key comes from the password, so that every process of a
    server knows the others' cookies, and a new password ends them."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        # Slow to make: whoever gets hold of a cookie cannot quickly try passwords against it.
        self._key = hashlib.scrypt(self._password, salt=b"headrace dashboard", n=2**14, r=8, p=1)
        self._failures: list[float] = []

    def accepts(self, password: str) -> bool:
        """Whether the password is right; False too when there were too many wrong ones just now."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < 60]
        if len(self._failures) >= ATTEMPTS:
            return False
        if hmac.compare_digest(password.encode(errors="replace"), self._password):
            return True
        self._failures.append(now)
        return False

    def begin(self) -> str:
        said = f"{int(time.time()) + SESSION}.{secrets.token_hex(8)}"
        return f"{said}.{self._sign(said)}"

    def holds(self, cookie: str | None) -> bool:
        said, _, signature = (cookie or "").rpartition(".")
        until = said.partition(".")[0]
        signed = hmac.compare_digest(signature.encode(), self._sign(said).encode())
        return signed and until.isdecimal() and int(until) > time.time()

    def _sign(self, said: str) -> str:
        return hmac.new(self._key, said.encode(), hashlib.sha256).hexdigest()
