"""What a caller does with a job that was enqueued."""
