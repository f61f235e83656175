"""The Environment Designer: requests, prompts, replies, hints and screens."""
