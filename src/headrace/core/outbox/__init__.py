"""Outboxes: what a step writes for other streams, until a relay has appended it there."""
