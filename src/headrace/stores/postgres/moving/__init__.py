"""Moves everything in the tables to another store, and takes what another store held."""
