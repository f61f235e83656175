"""Has an object the method that its part of a curriculum needs?"""

from __future__ import annotations

#: The method that a part needs.
_METHODS = {
    "memory": "slot_of", "scorer": "__call__", "schedule": "plan", "sampler": "probabilities", "generator": "generate",
    "gate": "refuse",
}  # fmt: skip


def check_parts(**parts: object) -> None:
    """Refuse what is no part; absent ones (``None``) pass.

    Raises:
        TypeError: With the part's name, its method, and what it got.
    """
    for name, part in parts.items():
        method = _METHODS[name]
        if part is not None and (isinstance(part, type) or not callable(getattr(part, method, None))):
            hint = " (an object of that class)" if isinstance(part, type) else ""
            raise TypeError(f"{name} must have a method {method!r}, got {part!r:.200}{hint}")
