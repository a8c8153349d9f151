"""Connections to the server, transactions, and the wake-ups of callers that wait."""
