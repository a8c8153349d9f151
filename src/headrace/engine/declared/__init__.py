"""What an app declares for its workers: handlers, queues, subscriptions and limits."""
