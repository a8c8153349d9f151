"""The events face of the engine: topics, subscriptions and deliveries."""
