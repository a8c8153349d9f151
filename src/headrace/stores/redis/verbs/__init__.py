"""Carries out the verbs of the store contract as script calls."""
