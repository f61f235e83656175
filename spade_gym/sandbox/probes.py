"""The table of all probes (see ``probe.py``), and the quick ones that ``spade-gym doctor`` runs."""

from __future__ import annotations

from spade_gym.sandbox import probes_inside as inside
from spade_gym.sandbox import probes_outside as outside
from spade_gym.sandbox.probe import Probe

PROBES: tuple[Probe, ...] = (
    *outside.FILES,
    *outside.PROCESSES,
    *outside.NETWORK,
    *outside.KERNEL,
    *inside.RESOURCES,
    *inside.WIRE,
    *inside.VALUES,
)
QUICK: tuple[Probe, ...] = tuple(probe for probe in PROBES if probe.quick)
