"""Implements a client of Redis and Valkey with hiredis: connections, Sentinel, Cluster."""
