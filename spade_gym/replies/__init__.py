"""Recorded replies of models, sound and flawed ones, for demonstrations, examples and the designer ``recorded``."""
