"""Players and environments together: from orders to plays."""
