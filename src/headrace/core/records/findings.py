"""The part of the contract in which a store says how it is: what `headrace doctor` prints."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"  # it works; somebody should know
    FAIL = "fail"  # it does not work, or jobs are in danger


class Finding(msgspec.Struct, frozen=True):
    """One line: what was looked at, the fact, and what to do where it is not ok."""

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
    """A number of bytes for a person."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class Examination:
    """One verb."""

    async def examine(self) -> list[Finding]:
        """Look at the store itself, not at what lies in it: its version, settings, room, clock and speed, and
        whether this user may do what is needed. Changes nothing and takes a few seconds at most; what cannot
        be found out is said as such, and no reason to raise."""
        raise NotImplementedError
