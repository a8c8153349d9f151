"""The only way in which tests wait. It is defined where the contract suite needs it too."""

from __future__ import annotations

from headrace.testing.waiting import wait_until, wait_until_sync

__all__ = ["wait_until", "wait_until_sync"]
