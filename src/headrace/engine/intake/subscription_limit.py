"""Limits the events of a subscription in flight: from the read until their settlement is written."""

from __future__ import annotations


class SubscriptionLimit:
    def __init__(self, most: int) -> None:
        self.most = most
        self.left: int = most
        self.finished: int = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return self.left >= self.most

    def take(self, count: int) -> None:
        self.left -= count

    def give_back(self) -> None:
        self.left += 1
        self.finished += 1
