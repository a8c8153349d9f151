"""What a queue, topic, group or task may be called."""

from __future__ import annotations

import re

from .errors import ConfigurationError

#: Braces would break the hash tags of a Redis Cluster; a hundred characters are enough for a dotted path.
PATTERN = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def checked_name(kind: str, name: object) -> str:
    """Return `name`, or raise a `ConfigurationError` that says what is wrong with it."""
    if isinstance(name, str) and PATTERN.fullmatch(name):
        return name
    raise ConfigurationError(
        f"{kind} name {name!r} is not allowed: use 1 to 100 letters, digits and the characters _ . : -"
    )
