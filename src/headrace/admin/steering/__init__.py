"""Changes queues, groups, jobs and dead letters."""
