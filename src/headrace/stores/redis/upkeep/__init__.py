"""What workers do at intervals: leases, promotion, recovery, traffic, and their own entries."""
