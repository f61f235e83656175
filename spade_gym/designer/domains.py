"""Where does a tool-use environment play, and what kind of request does its user make?

Each request for a tool-use program draws one of ten domains, all equally likely, and one of four variants with the
weights 3:2:1:1. Source: method, section 1.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

DOMAINS = MappingProxyType(
    {
        "retail orders": "Customers, orders with items and addresses, returns and refunds of a shop.",
        "travel booking": "Flights, hotels and passengers: search, book, change and cancel.",
        "telecom accounts": "Lines, plans, devices, bills and faults of a telephone company.",
        "banking": "Accounts, transfers, cards, limits and standing orders of a bank.",
        "calendar": "Events, participants, rooms, reminders and free times.",
        "file system": "Folders, files, permissions and versions of an imagined store, kept in a dict.",
        "shopping cart": "Products, stock, a cart, vouchers and the checkout.",
        "support tickets": "Tickets with priority, status, owner, comments and escalation.",
        "smart home": "Rooms, lamps, heating, locks, sensors and scenes.",
        "project tracker": "Projects, tasks, people, sprints and dependencies between tasks.",
    }
)


class Variant(NamedTuple):
    """A kind of request.

    Attributes:
        title: In words.
        description: What it demands of the program.
        weight: Relative frequency.
    """

    title: str
    description: str
    weight: int


VARIANTS = MappingProxyType(
    {
        "execute": Variant(
            "execute",
            "The user says what is to be done; every instruction changes the state.",
            3,
        ),
        "read_then_write": Variant(
            "read, then write",
            "What has to be written depends on what a tool shows first: the cheapest, the oldest, the one of a certain "
            "kind. The instruction describes it and does not name it.",
            2,
        ),
        "missing_value": Variant(
            "missing value",
            "An instruction leaves out a value that a call needs; a later instruction gives it, or it stands in the "
            "record of that customer or thing. A guess must not fulfil the criterion.",
            1,
        ),
        "irrelevant_request": Variant(
            "with an irrelevant request",
            "One instruction also asks for something that no tool can do, such as the weather; the player leaves it "
            "and does the rest. The criterion tests only what the tools can do.",
            1,
        ),
    }
)


def draw_domain(rng: np.random.Generator) -> str:
    """Draw one of the ten domains."""
    return list(DOMAINS)[int(rng.integers(len(DOMAINS)))]


def draw_variant(rng: np.random.Generator) -> str:
    """Draw one of the four variants, by their weights."""
    weights = np.array([variant.weight for variant in VARIANTS.values()], dtype=np.float64)
    return list(VARIANTS)[int(rng.choice(len(weights), p=weights / weights.sum()))]
