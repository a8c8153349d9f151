"""Logins by password: signed cookies that end, and a bound on guessing."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from typing import Final

from .attempts import Attempts

COOKIE: Final = "headrace_session"

#: Seconds for which a cookie is accepted at most.
LONGEST: Final = 12 * 3600

#: Seconds that a login holds: less, since the clocks of processes that share sessions may differ.
SESSION: Final = LONGEST - 60

#: Cookies that were found right and are remembered as such.
MOST_KNOWN: Final = 1000

logger = logging.getLogger("headrace")


class Sessions:
    """A cookie is a time and its signature. The key comes from the password, so that a new one ends all
    sessions, and from a secret, so that nobody makes cookies out of guessed passwords. Processes that are
    given the same secret accept each other's cookies; without one each has its own."""

    def __init__(self, password: str, secret: str | None = None) -> None:
        self._password = password.encode()
        salt = secret.encode() if secret else secrets.token_bytes(32)
        # Slow to make: whoever knows the secret and has a cookie cannot quickly try passwords against it.
        self._key = hashlib.scrypt(self._password, salt=b"headrace dashboard " + salt, n=2**14, r=8, p=1)
        self._attempts = Attempts()
        self._known: dict[str, None] = {}
        self._ended: dict[str, float] = {}
        self._told = bool(secret)

    def may_try(self, address: str) -> bool:
        return self._attempts.allowed(address)

    def accepts(self, password: str, address: str) -> bool:
        """Whether the password is right; False too when this address gave too many wrong ones just now."""
        if not self.may_try(address):
            return False
        if hmac.compare_digest(password.encode(errors="replace"), self._password):
            return True
        self._attempts.count(address)
        return False

    def begin(self) -> str:
        said = f"{int(time.time()) + SESSION}.{secrets.token_hex(16)}"
        cookie = f"{said}.{self._sign(said)}"
        self._remember(cookie)
        return cookie

    def holds(self, cookie: str | None, address: str) -> bool:
        """Whether it is a session of ours that has not ended. One that was never seen is a try of this
        address; who is in already is not locked out by others at his address."""
        if not cookie or not (cookie in self._known or self._is_signed(cookie, address)):
            return False
        return cookie not in self._ended and 0 < _until(cookie) - time.time() <= LONGEST

    def end(self, cookie: str) -> None:
        """It is accepted no more. It is remembered until it would have ended by itself."""
        now = time.time()
        while self._ended and next(iter(self._ended.values())) < now:
            del self._ended[next(iter(self._ended))]
        self._ended[cookie] = _until(cookie)

    def _is_signed(self, cookie: str, address: str) -> bool:
        if not self.may_try(address):
            return False
        said, _, signature = cookie.rpartition(".")
        right = self._sign(said).encode()
        if hmac.compare_digest(signature.encode(errors="replace"), right):
            self._remember(cookie)
            return True
        self._attempts.count(address)
        self._tell()
        return False

    def _remember(self, cookie: str) -> None:
        self._known[cookie] = None
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _tell(self) -> None:
        """Once: where several processes answer, a login would seem to be forgotten at every other click."""
        if not self._told:
            self._told = True
            logger.warning(
                "the dashboard refused a session that this process did not begin; where several processes "
                "serve it, give all of them the same HEADRACE_DASHBOARD_SECRET"
            )

    def _sign(self, said: str) -> str:
        return hmac.new(self._key, said.encode(errors="replace"), hashlib.sha256).hexdigest()


def _until(cookie: str) -> float:
    """When it ends by itself, as it says; of a cookie whose signature is right."""
    said = cookie.partition(".")[0]
    return float(said) if said.isdecimal() and len(said) < 12 else 0.0
