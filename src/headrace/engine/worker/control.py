"""Passes control messages of other processes to the parts of the worker that act on them."""

from __future__ import annotations

import msgspec

from headrace.core.records.control import (
    CancelNotice,
    ControlMessage,
    DueNotice,
    LayoutNotice,
    LeaseNotice,
    MissedNotice,
    PauseNotice,
    ScheduleNotice,
)
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.upkeep.leases import Leases
from headrace.engine.upkeep.promotion import Promotion
from headrace.engine.upkeep.schedule_runner import ScheduleRunner


class ControlHandler(msgspec.Struct, frozen=True):
    claim_control: ClaimControl
    readers: WorkerReaders
    leases: Leases
    promotion: Promotion
    schedule_runner: ScheduleRunner

    def handle(self, message: ControlMessage) -> None:
        match message:
            case CancelNotice(stream=stream, id=id):
                self.claim_control.cancel(stream, id)
            case PauseNotice(stream=stream, paused=True):
                self.claim_control.handle_pauses(frozenset({stream}))
            case PauseNotice():
                self.readers.look_again()
            case DueNotice(stream=stream):
                self.promotion.something_is_due(stream)
            case LeaseNotice(stream=stream, lease_us=lease_us):
                self.leases.changed({stream: lease_us})
            case ScheduleNotice(stream=stream):
                self.schedule_runner.schedules_changed(stream)
            case MissedNotice():
                self.promotion.something_is_due(None)
                self.schedule_runner.schedules_changed(None)
            case LayoutNotice():
                pass  # the router above the store handles it
