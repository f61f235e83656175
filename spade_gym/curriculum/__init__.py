"""Curricula: which task to play next, from what was learned about all of them."""
