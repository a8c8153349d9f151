"""Relays: they append what waits in outboxes to the streams that it is for."""
