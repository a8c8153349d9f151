"""The log of a topic, and the groups that get its events."""
