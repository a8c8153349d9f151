"""Heartbeats as a worker with one reader sends them."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlState
from headrace.core.records.record import WorkerInfo
from headrace.core.store import Store
from headrace.engine.streams import StreamRouter


async def beat(backend: StreamRouter | Store, worker: WorkerInfo) -> ControlState:
    """The worker claims from all its streams under its own name."""
    return await backend.heartbeat(worker, {worker.consumer: worker.streams})


async def leave(backend: StreamRouter | Store, consumer: str, *streams: Stream) -> None:
    """The last heartbeat of a worker that has claimed from these streams."""
    worker = WorkerInfo(consumer, "host", 1, 1, (), 1)
    assert await backend.heartbeat(worker, {consumer: streams}, leaving=True) == ControlState()
