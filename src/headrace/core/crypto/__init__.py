"""Signing and encryption of payloads."""
