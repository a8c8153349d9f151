"""Job and event ids: UUIDv7, made by the client, shown as 26 characters that sort by time."""

from __future__ import annotations

import hashlib
import os
import re
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, in lower case
GIVEN = re.compile(r"[!-z|~]{1,200}")  # printable, no space, no braces

_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
_SHIFTS = tuple(range(120, -1, -10))
_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_RANDOM_A = 0xFFF << 64
_RANDOM_B = (1 << 62) - 1


def new_id() -> str:
    """A fresh id. Ids made in different milliseconds sort by the time they were made."""
    random = int.from_bytes(os.urandom(10), "big")
    milliseconds = time.time_ns() // 1_000_000
    return _text(milliseconds << 80 | _VERSION | random & _RANDOM_A | _VARIANT | random & _RANDOM_B)


def derived_id(*parts: str) -> str:
    """The id that follows from `parts`: made twice it is the same, so that a repeat is recognised."""
    # With their lengths: no two lists of parts may run together into the same text.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return _text(int.from_bytes(digest, "big"))


def is_given_id(value: str) -> bool:
    """Whether a user may choose `value` as a job id."""
    return GIVEN.fullmatch(value) is not None


def _text(number: int) -> str:
    pairs = _PAIRS
    return "".join([pairs[number >> shift & 1023] for shift in _SHIFTS])
