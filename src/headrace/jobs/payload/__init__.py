"""Arguments as bytes, and back."""
