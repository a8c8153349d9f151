"""Unique keys: which message holds a key, and until when."""
