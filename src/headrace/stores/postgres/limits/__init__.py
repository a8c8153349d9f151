"""Limits, lines and tenants in the tables.

Every step that changes them holds one lock of the namespace. It takes the lock before all other locks. A
limit may block lines of several queues, and a job may have several limits. So locks for each limit or queue
have no fixed order: a step knows which lines it opens only when it has their budgets. Steps of messages
without constraints do not take the lock.
"""
