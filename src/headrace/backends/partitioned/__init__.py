"""Streams that are split into parts, for every store: whoever uses a store sees the whole.

`open_backend` puts this around each store. Outside there are only queues, topics and groups by their names;
inside a stream that was split is one of several parts (`emails#1.3`), and each of them is for the store a
stream like any other. Streams that were never split go straight through.
"""

from __future__ import annotations

from .backend import Partitioned

__all__ = ["Partitioned"]
