"""Keeps the log lines of handlers with their jobs."""
