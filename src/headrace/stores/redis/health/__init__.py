"""How a server is: findings for the doctor."""
