"""What limits allow, and what a claim takes from lines."""
