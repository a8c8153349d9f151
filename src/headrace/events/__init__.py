"""Events: topics, subscriptions and deliveries. A layer over the engine that does not know jobs.

Here are the types that the methods of `Topic` take and return, for annotations.
"""

from .consumer import Consumer, Deliveries
from .encoder import EventDraft
from .options import (
    BatchSettings,
    EventOptions,
    SubscriptionSettings,
    TopicOptions,
    TopicSettings,
)
from .sync_topic import SyncTopic
from .topic import Fed, FedOptions, Subscribe, SubscribeBatch

__all__ = [
    "BatchSettings",
    "Consumer",
    "Deliveries",
    "EventDraft",
    "EventOptions",
    "Fed",
    "FedOptions",
    "Subscribe",
    "SubscribeBatch",
    "SubscriptionSettings",
    "SyncTopic",
    "TopicOptions",
    "TopicSettings",
]
