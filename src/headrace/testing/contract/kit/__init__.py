"""What every test of the contract uses: a store with a movable clock, a topic, and the check at the end."""
