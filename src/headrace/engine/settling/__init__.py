"""From a claim to its written outcome."""
