"""Prompts without a word of their own: the player sees the bare observation, in every setting."""
