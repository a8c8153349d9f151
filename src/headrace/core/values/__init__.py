"""Values that users write: encoded, checked and bounded."""
