"""The state of one stream, and how its messages change their state."""
