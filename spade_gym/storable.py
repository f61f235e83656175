"""Which text can be written as UTF-8? Models, servers and file names can hold lone surrogates, which cannot."""

from __future__ import annotations


def storable(text: str) -> str:
    """Return a text in which every lone surrogate is a ``?``; any other text comes back as it is."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
