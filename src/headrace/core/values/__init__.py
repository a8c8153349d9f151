"""Encodes values that users send, and checks options that users write."""
