"""Messages that a settlement carries to other streams."""
