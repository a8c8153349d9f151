"""Moves everything in the file to another store, and takes what another store held."""
