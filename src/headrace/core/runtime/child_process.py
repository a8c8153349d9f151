"""Whether this process is a child of a worker: it runs tasks with `run_in="process"`, and serves no queue."""

from __future__ import annotations

_is_child = False


def become_child() -> None:
    """Say that this process is a child of a worker. It stays one until its end."""
    global _is_child
    _is_child = True


def is_child() -> bool:
    return _is_child
