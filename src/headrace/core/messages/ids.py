"""Job and event ids: UUIDv7, made by the client, shown as 26 characters that sort by time."""

from __future__ import annotations

import hashlib
import os
import re
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, in lower case
LENGTH = 26
GIVEN = re.compile(r"[!-z|~]{1,200}")  # printable, no space, no braces

# 26 characters hold 130 bits. The first ten characters are two zero bits and the 48 bits of the time. The
# rest are 80 bits, of which the first four are the version 0111, and the 17th and 18th are the variant 10. A
# table turns each random byte into a character, so that all but those two characters come from one call.
# Random parts are made in advance, because asking the system for each costs as much as all the rest. The last
# two characters of the time count the milliseconds of about a second; the eight before them are cached that
# long.
_SECOND_SHIFTS = tuple(range(45, 5, -5))
_MILLISECONDS = [high + low for high in ALPHABET for low in ALPHABET]
_NUMBER_SHIFTS = tuple(range(125, -1, -5))
_TIME_LENGTH = 10
_ANY = (ALPHABET * 8).encode()
_WITH_VERSION = "".join(ALPHABET[0b01110 | byte & 1] for byte in range(256)).encode()
_WITH_VARIANT = "".join(ALPHABET[0b01000 | byte & 0b10011] for byte in range(256)).encode()

#: How many random parts are drawn at a time.
_AHEAD = 256

_last: tuple[int, str] = (0, "")
_last_second: tuple[int, str] = (0, "")
_drawn: list[str] = []


def new_id() -> str:
    """A fresh id. Ids made in different milliseconds sort by the time they were made."""
    global _last
    milliseconds = time.time_ns() // 1_000_000
    known, text = _last
    if known != milliseconds:
        text = _time_text(milliseconds)
        _last = milliseconds, text
    try:
        return text + _drawn.pop()
    except IndexError:
        parts = _random_parts()
        _drawn.extend(parts[1:])
        return text + parts[0]


def derived_id(*parts: str) -> str:
    """The id that follows from `parts`. The same parts give the same id, so that a repeat is recognised."""
    # With the lengths, so that two different lists of parts never give the same text.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return _text(int.from_bytes(digest, "big"), _NUMBER_SHIFTS)


def is_given_id(value: str) -> bool:
    """Whether a user may choose `value` as a job id."""
    return GIVEN.fullmatch(value) is not None


def is_made_id(value: str) -> bool:
    """Whether `value` looks like an id that headrace made."""
    return len(value) == LENGTH and all(each in ALPHABET for each in value)


def made_us(id: str) -> int:
    """The time at which headrace made an id, in microseconds; 0: the id holds no time."""
    milliseconds = 0
    for character in id[:_TIME_LENGTH] if is_made_id(id) else "":
        milliseconds = milliseconds * len(ALPHABET) + ALPHABET.index(character)
    return milliseconds * 1000


def _time_text(milliseconds: int) -> str:
    global _last_second
    second, within = divmod(milliseconds, len(_MILLISECONDS))
    known, text = _last_second
    if known != second:
        text = _text(milliseconds, _SECOND_SHIFTS)
        _last_second = second, text
    return text + _MILLISECONDS[within]


def _random_parts() -> list[str]:
    random = os.urandom(16 * _AHEAD)
    characters = bytearray(random.translate(_ANY))
    characters[0::16] = random[0::16].translate(_WITH_VERSION)
    characters[3::16] = random[3::16].translate(_WITH_VARIANT)
    text = characters.decode("ascii")
    return [text[at : at + 16] for at in range(0, len(text), 16)]


def _text(number: int, shifts: tuple[int, ...]) -> str:
    return "".join([ALPHABET[number >> shift & 31] for shift in shifts])


if hasattr(os, "register_at_fork"):
    # A forked child must not use the random parts of its parent.
    os.register_at_fork(after_in_child=_drawn.clear)
