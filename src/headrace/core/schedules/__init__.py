"""Schedules: when they fire, and what a store keeps of them."""
