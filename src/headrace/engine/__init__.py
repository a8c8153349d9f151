"""Runs claims: knows the contract of a store, never a store."""
