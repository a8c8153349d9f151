"""The state of one stream, and the moves of its messages."""
