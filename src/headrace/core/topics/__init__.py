"""What only topics have: the contract, where a reader begins, and how groups keep order."""
