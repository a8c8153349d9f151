"""Sends script calls and commands to a server or a cluster, and says what its errors mean."""
