"""Routes the requests of engine and admin to the store. Streams have the names that users know.

The parts of a stream are streams of their own in the store (`emails#1.3`). A stream without parts goes
straight to the store.
"""

from __future__ import annotations

from .router import StreamRouter

__all__ = ["StreamRouter"]
