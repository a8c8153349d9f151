"""Looks at queues, topics, groups, jobs and workers. Changes nothing."""
