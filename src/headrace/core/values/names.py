"""Checks the names of queues, topics, groups and tasks."""

from __future__ import annotations

import re

from headrace.core.errors import ConfigurationError

#: Braces would break the hash tags of a Redis Cluster. The default names of tasks in tests are long.
PATTERN = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


#: Names found in a store may be longer, and have other characters, than those that users may give: another
#: program may have written them.
LONGEST_FOUND = 1000

#: The characters between a topic and a group, and before a part: no name contains them.
_MARKS = frozenset("/#")


def found_name(kind: str, name: object) -> str:
    """`name` if it can be the name of something in a store, which another program may have written."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST_FOUND and _MARKS.isdisjoint(name):
        return name
    raise ConfigurationError(f"{kind} name {name!r} is not allowed: nothing can be called so")


def checked_name(kind: str, name: object) -> str:
    """Return `name`, or raise a `ConfigurationError` that says what is wrong with it."""
    if isinstance(name, str) and PATTERN.fullmatch(name):
        return name
    raise ConfigurationError(
        f"{kind} name {name!r} is not allowed: use 1 to 200 letters, digits and the characters _ . : -"
    )
