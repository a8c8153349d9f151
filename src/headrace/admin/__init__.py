"""Inspect and control a store: the base of the command line and of the dashboard."""

from headrace.admin.looking.contents import Contents, EventInfo
from headrace.admin.looking.info import GroupInfo, QueueInfo, SealInfo, TopicInfo, Traffic
from headrace.admin.looking.outboxes import OutboxInfo
from headrace.admin.looking.tail import Tail
from headrace.admin.steering.dead_letters import Replayed
from headrace.admin.steering.repeatable import Counted

from .admin import Admin
from .limits import LimitInfo

__all__ = [
    "Admin",
    "Contents",
    "Counted",
    "EventInfo",
    "GroupInfo",
    "LimitInfo",
    "OutboxInfo",
    "QueueInfo",
    "Replayed",
    "SealInfo",
    "Tail",
    "TopicInfo",
    "Traffic",
]
