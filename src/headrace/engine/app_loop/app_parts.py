"""The parts of an app that its jobs and its events share."""

from __future__ import annotations

import msgspec

from headrace.core.encoding.codec import AppCodec
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.engine.declared.registry import Registry
from headrace.engine.emitter import Emitter
from headrace.engine.transactions.writer import TransactionWriter

from .app_loop import AppLoop
from .portal import Portal


class AppParts(msgspec.Struct, frozen=True):
    """Made once by the app. `retry` is the policy of tasks and subscriptions that name none. `portal` leads
    from plain code to the event loop of the app."""

    app_loop: AppLoop
    registry: Registry
    emitter: Emitter
    codec: AppCodec | None
    max_payload: int
    retry: RetryPolicy | RetryFunction
    transactions: TransactionWriter
    portal: Portal
