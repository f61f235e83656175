"""Recipes of self-play runs, one TOML file each."""
