"""Readers: claim messages for the free slots, from queues, groups and topics."""
