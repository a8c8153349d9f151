"""What a store answers: records of messages, queues and workers."""
