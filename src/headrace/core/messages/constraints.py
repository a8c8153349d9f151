"""What a store observes when it hands out a message: the limits that count it, and its tenant."""

from __future__ import annotations

import msgspec


class LimitKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One budget: a limit, and for a limit `by` a parameter a hash of the parameter's value."""

    limit: str
    key: str = ""


class Constraints(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message with constraints waits in a *line*: the queued messages of one stream and lane that have the
    same constraints, first in, first out. Tenants take turns."""

    limits: tuple[LimitKey, ...] = ()
    tenant: str = ""


NO_CONSTRAINTS = Constraints()
