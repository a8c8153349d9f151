"""The part of the contract in which a store reports its own condition, for `headrace doctor`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"  # it works, but an operator should know
    FAIL = "fail"  # it does not work, or jobs are in danger


class Finding(msgspec.Struct, frozen=True):
    """One line of a report: what was examined, the fact, and what to do when it is not ok."""

    name: str
    level: Level
    text: str
    remedy: str = ""


def ok(name: str, text: str) -> Finding:
    return Finding(name, Level.OK, text)


def warn(name: str, text: str, remedy: str) -> Finding:
    return Finding(name, Level.WARN, text, remedy)


def fail(name: str, text: str, remedy: str) -> Finding:
    return Finding(name, Level.FAIL, text, remedy)


def spoken_bytes(size: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class Examination:
    """The verb that examines a store."""

    async def examine(self) -> list[Finding]:
        """Examine the store itself, not its messages: its version, settings, room, clock and speed, and
        whether this user has the permissions that are needed. Changes nothing and takes a few seconds at
        most. What cannot be found out is a finding, not an error."""
        raise NotImplementedError
