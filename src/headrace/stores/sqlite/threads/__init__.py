"""The threads of the store (one writes, one reads), with transactions, waiters and wake-ups."""
