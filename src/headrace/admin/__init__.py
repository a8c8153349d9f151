"""Looking and steering: what the command line and the dashboard stand on."""

from headrace.admin.admin import Admin
from headrace.admin.contents import Contents, EventInfo
from headrace.admin.dead_letters import Replayed
from headrace.admin.queues import QueueInfo
from headrace.admin.steps import Counted
from headrace.admin.tail import Tail
from headrace.admin.topics import GroupInfo, TopicInfo
from headrace.admin.traffic import Traffic

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
