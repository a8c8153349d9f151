"""A shop on Django: the project of these tests."""
