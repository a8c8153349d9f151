"""Which keys of a Redis server may stay when all messages have ended."""

from __future__ import annotations

import re

_PERMANENT = re.compile(
    r"\{[^}]*\}:(g:[^/]+/)?(s:(suspect|returned|high|normal|low)(/child)?(/open)?|s:held|meta|sched|p:"
    r"|history(/heads|/contents)?)"
    r"|\{[^}]*\}:(limits/)?(figures|overrides|revision)"
    r"|\{[^}]*\}:(log|groups|format|seal|sealed|tags)|[^{}]+:(streams|workers)"
)


def is_permanent(key: str) -> bool:
    """Whether a key may stay, without a time to live, when all messages have ended."""
    return _PERMANENT.fullmatch(key) is not None
