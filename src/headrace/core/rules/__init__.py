"""What holds in every store, written once."""
