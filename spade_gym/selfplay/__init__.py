"""The self-play cycle (``selfplay.py``), its recipes, its run folder and the seam to a trainer."""
