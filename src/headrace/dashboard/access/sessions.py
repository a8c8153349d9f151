"""Logins by password: signed cookies that expire, and a limit on wrong passwords."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from typing import Final

from .attempts import WrongAttempts

COOKIE: Final = "headrace_session"

#: Seconds for which a cookie is accepted at most.
LONGEST: Final = 12 * 3600

#: Seconds that a login lasts. It is less, because the clocks of processes that share sessions may differ.
SESSION: Final = LONGEST - 60

#: Valid cookies that are remembered.
MOST_KNOWN: Final = 1000

logger = logging.getLogger("headrace")


class Sessions:
    """A cookie is a time and its signature. The key is made from the password, so a new password ends all
    sessions, and from a secret, so a guessed password alone makes no cookie. Processes with the same secret
    accept each other's cookies. Without a secret each process makes its own."""

    def __init__(self, password: str, secret: str | None = None) -> None:
        self._password = password.encode()
        salt = secret.encode() if secret else secrets.token_bytes(32)
        # Slow to make: an attacker who has the secret and a cookie cannot quickly try passwords against it.
        self._key = hashlib.scrypt(self._password, salt=b"headrace dashboard " + salt, n=2**14, r=8, p=1)
        self._attempts = WrongAttempts()
        self._known: dict[str, None] = {}
        self._ended: dict[str, float] = {}
        self._warned = bool(secret)

    def may_try(self, address: str) -> bool:
        return self._attempts.allowed(address)

    def accepts(self, password: str, address: str) -> bool:
        """Whether the password is right. False, too, after too many wrong attempts of this address."""
        if not self.may_try(address):
            return False
        if hmac.compare_digest(password.encode(errors="replace"), self._password):
            return True
        self._attempts.count(address)
        return False

    def begin(self) -> str:
        content = f"{int(time.time()) + SESSION}.{secrets.token_hex(16)}"
        cookie = f"{content}.{self._sign(content)}"
        self._remember(cookie)
        return cookie

    def holds(self, cookie: str | None, address: str) -> bool:
        """Whether it is a valid session that has not ended. An unknown cookie counts as an attempt of this
        address. A user who is logged in is not locked out by others at the same address."""
        if not cookie or not (cookie in self._known or self._is_signed(cookie, address)):
            return False
        return cookie not in self._ended and 0 < _until(cookie) - time.time() <= LONGEST

    def end(self, cookie: str) -> None:
        """Log out: the cookie is refused from now on. It is remembered until it expires."""
        now = time.time()
        while self._ended and next(iter(self._ended.values())) < now:
            del self._ended[next(iter(self._ended))]
        self._ended[cookie] = _until(cookie)

    def _is_signed(self, cookie: str, address: str) -> bool:
        if not self.may_try(address):
            return False
        content, _, signature = cookie.rpartition(".")
        right = self._sign(content).encode()
        if hmac.compare_digest(signature.encode(errors="replace"), right):
            self._remember(cookie)
            return True
        self._attempts.count(address)
        self._warn_once()
        return False

    def _remember(self, cookie: str) -> None:
        self._known[cookie] = None
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _warn_once(self) -> None:
        """With several processes and no shared secret, users are logged out at every other click."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "the dashboard refused a session that this process did not begin; if several processes "
                "serve it, give all of them the same HEADRACE_DASHBOARD_SECRET"
            )

    def _sign(self, content: str) -> str:
        return hmac.new(self._key, content.encode(errors="replace"), hashlib.sha256).hexdigest()


def _until(cookie: str) -> float:
    """When the cookie expires. Its signature was checked before."""
    content = cookie.partition(".")[0]
    return float(content) if content.isdecimal() and len(content) < 12 else 0.0
