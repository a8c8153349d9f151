"""Checks and shows options that users write: names, numbers, times, secrets."""
