"""The path of a message through a queue: append, claim, settle, and the wait for its end."""
