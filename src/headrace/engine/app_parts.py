"""The parts of an app that its jobs and its events share."""

from __future__ import annotations

import msgspec

from headrace.core.codec import Codec
from headrace.core.retry import RetryFunction, RetryPolicy

from .app_loop import AppLoop
from .emitter import Emitter
from .registry import Registry


class AppParts(msgspec.Struct, frozen=True):
    """Made once by the app. `retry` is the policy of tasks and subscriptions that name none."""

    app_loop: AppLoop
    registry: Registry
    emitter: Emitter
    codec: Codec | None
    max_payload: int
    retry: RetryPolicy | RetryFunction
