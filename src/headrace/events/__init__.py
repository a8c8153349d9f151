"""The events face of the engine: topics, subscriptions and deliveries.

Here are the types that the methods of `Topic` take and return, for annotations.
"""

from headrace.events.letters import Draft
from headrace.events.options import TopicOptions
from headrace.events.topic import Fed, FedOptions, Subscribe, SubscribeBatch

__all__ = ["Draft", "Fed", "FedOptions", "Subscribe", "SubscribeBatch", "TopicOptions"]
