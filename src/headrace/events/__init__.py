"""Events: topics, subscriptions and deliveries. A layer over the engine that does not know jobs."""
