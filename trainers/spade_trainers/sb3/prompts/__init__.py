"""Gameplay prompts that are the bare observation: a policy over hashed words gains nothing from instructions."""
