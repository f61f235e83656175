"""Measurements of trainers beside other trainers."""
