"""The base of all signals."""

from __future__ import annotations

import msgspec


class Signal(msgspec.Struct, frozen=True):
    """The base class of all signals: a listener to it gets every signal."""
