"""Runs claims: decode, find the handler, call it, decide the outcome."""
