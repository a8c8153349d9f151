"""Moves everything in the namespace to another store, and takes what another store held."""
