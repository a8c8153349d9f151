"""What a queue, topic, group or task may be called."""

from __future__ import annotations

import re

from headrace.core.errors import ConfigurationError

#: Braces would break the hash tags of a Redis Cluster; a hundred characters are enough for a dotted path.
PATTERN = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


#: Names in a store may be longer and stranger than those that we give: somebody may have tampered with it.
LONGEST_FOUND = 1000

#: What stands between the names of a topic and a group, and in front of a part: no name holds them.
_MARKS = frozenset("/#")


def found_name(kind: str, name: object) -> str:
    """The name of something that is looked at, which may have been written by a stranger."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST_FOUND and _MARKS.isdisjoint(name):
        return name
    raise ConfigurationError(f"{kind} name {name!r} is not allowed: nothing can be called so")


def checked_name(kind: str, name: object) -> str:
    """Return `name`, or raise a `ConfigurationError` that says what is wrong with it."""
    if isinstance(name, str) and PATTERN.fullmatch(name):
        return name
    raise ConfigurationError(
        f"{kind} name {name!r} is not allowed: use 1 to 100 letters, digits and the characters _ . : -"
    )
