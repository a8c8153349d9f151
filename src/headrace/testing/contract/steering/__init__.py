"""What people do to a store: cancel, replay, pause, purge, remove and split."""
