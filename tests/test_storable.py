from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spade_gym.storable import storable


@given(st.text(st.characters()))
def test_what_comes_back_can_be_written_and_only_lone_surrogates_change(text: str) -> None:
    assert storable(text) == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in text)
    storable(text).encode("utf-8")
