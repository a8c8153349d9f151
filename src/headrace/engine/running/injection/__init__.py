"""Gives a function its dependencies and the lifespan's value when it runs."""
