from __future__ import annotations

import datetime
import os

from spade_gym.bench.machine import machine_and_date


def test_the_class_of_the_machine_is_said_in_words() -> None:
    found = machine_and_date()
    words = found["machine"]["class"]
    assert words.startswith(f"{os.cpu_count()}-core ")
    assert words.endswith(("no GPU", "a GPU"))
    datetime.date.fromisoformat(found["date"])
