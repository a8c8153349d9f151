"""Others, each in an environment of its own: a requirement, and a program that prints figures as JSON.

The programs know nothing of headrace. Each does what its own documentation recommends, with handlers that do
nothing, and names its figures as `benchmarks/measures.py` does.
"""

from __future__ import annotations

from typing import NamedTuple


class Peer(NamedTuple):
    """A row of the comparison."""

    name: str
    requirement: str
    program: str
    arguments: tuple[str, ...] = ()


PEERS = (
    Peer("huey, SQLite, its default (no fsync)", "huey", "huey_case.py", ("sqlite",)),
    Peer("huey, SQLite, fsync", "huey", "huey_case.py", ("sqlite-fsync",)),
    Peer("huey, memory", "huey", "huey_case.py", ("memory",)),
    Peer("taskiq, InMemoryBroker", "taskiq", "taskiq_case.py"),
    Peer("dramatiq, StubBroker", "dramatiq", "dramatiq_case.py"),
)
