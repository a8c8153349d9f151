"""Readers: claim what the free slots can take, from queues, groups and topics."""
