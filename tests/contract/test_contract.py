"""The contract of stores, on each store of headrace."""

from __future__ import annotations

from headrace.testing.contract import suite

__all__ = ["suite"]
