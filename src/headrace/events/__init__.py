"""Events: topics, subscriptions and deliveries. A layer over the engine that does not know jobs.

Here are the types that the methods of `Topic` take and return, for annotations.
"""

from headrace.events.encoder import EventDraft
from headrace.events.options import (
    BatchSettings,
    EventOptions,
    SubscriptionSettings,
    TopicOptions,
    TopicSettings,
)
from headrace.events.topic import Fed, FedOptions, Subscribe, SubscribeBatch

__all__ = [
    "BatchSettings",
    "EventDraft",
    "EventOptions",
    "Fed",
    "FedOptions",
    "Subscribe",
    "SubscribeBatch",
    "SubscriptionSettings",
    "TopicOptions",
    "TopicSettings",
]
