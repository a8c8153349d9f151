"""What only topics have: where a reader begins, how groups keep order."""
