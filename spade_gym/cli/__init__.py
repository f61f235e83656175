"""The command ``spade-gym``: one module a command, found through ``main.COMMANDS``."""
