"""Encodes values that users send to bytes, and decodes stored bytes."""
