"""Keeps what handlers write through `logging` with their jobs."""
