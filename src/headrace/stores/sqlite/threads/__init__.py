"""The threads of the store: one writes, one reads; transactions, waiters and wake-ups."""
