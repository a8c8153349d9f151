"""Lists server versions with a fault that matters for jobs.

These are only warnings: a distribution may have fixed its package without a new version number.
"""

from __future__ import annotations

import re

import msgspec

Version = tuple[int, int, int]

#: A patch number after all others: the branch was never fixed.
NEVER = 1 << 30


class Flaw(msgspec.Struct, frozen=True):
    """A fault of the versions in each pair: from the first version up to, but not including, the second."""

    server: str
    name: str
    what: str
    ranges: tuple[tuple[Version, Version], ...]

    def concerns(self, server: str, version: Version) -> bool:
        return self.server == server and any(first <= version < mended for first, mended in self.ranges)


def _branch(major: int, minor: int, mended: int) -> tuple[Version, Version]:
    return (major, minor, 0), (major, minor, mended)


_LUA = "a user who may run scripts may run any code on the server"

FLAWS = (
    Flaw(
        "Redis",
        "CVE-2025-49844",
        _LUA,
        (
            *(((0, 0, 0), (6, 2, 20)), _branch(7, 0, NEVER), _branch(7, 2, 11), _branch(7, 4, 6)),
            *(_branch(8, 0, 4), _branch(8, 2, 2)),
        ),
    ),
    Flaw("Valkey", "CVE-2025-49844", _LUA, (_branch(7, 2, 11), _branch(8, 0, 6), _branch(8, 1, 4))),
    Flaw(
        "Redis",
        "CVE-2026-23479",
        "a client that is thrown out while it waits may bring the server down",
        (((7, 2, 0), (8, 6, 3)),),
    ),
    Flaw("Redis", "CVE-2025-62507", "XACKDEL may run any code on the server", (_branch(8, 2, 3),)),
)


def flaws_of(server: str, version: str) -> list[Flaw]:
    """The known faults of this version of `Redis` or `Valkey`; none if the version cannot be read."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None:
        return []
    numbers = (int(match[1]), int(match[2]), int(match[3] or 0))
    return [flaw for flaw in FLAWS if flaw.concerns(server, numbers)]
