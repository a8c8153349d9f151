"""The contract of stores."""

from headrace.testing.contract import suite

__all__ = ["suite"]
