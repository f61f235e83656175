"""Prompts of a few words, for the small model."""
