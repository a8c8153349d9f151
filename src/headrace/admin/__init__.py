"""Inspect and control a store: the base of the command line and of the dashboard."""

from .admin import Admin
from .contents import Contents, EventInfo
from .dead_letters import Replayed
from .info import GroupInfo, QueueInfo, SealInfo, TopicInfo, Traffic
from .limits import LimitInfo
from .outboxes import OutboxInfo
from .repeatable import Counted
from .tail import Tail

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
