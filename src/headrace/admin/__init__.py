"""Inspect and control a store: the base of the command line and of the dashboard."""

from headrace.admin.admin import Admin
from headrace.admin.contents import Contents, EventInfo
from headrace.admin.dead_letters import Replayed
from headrace.admin.info import GroupInfo, QueueInfo, TopicInfo, Traffic
from headrace.admin.repeatable import Counted
from headrace.admin.tail import Tail

__all__ = [
    "Admin",
    "Contents",
    "Counted",
    "EventInfo",
    "GroupInfo",
    "QueueInfo",
    "Replayed",
    "Tail",
    "TopicInfo",
    "Traffic",
]
