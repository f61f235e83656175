from __future__ import annotations

import dataclasses
import itertools

import pytest

from spade_gym.designer.request import DesignReply
from spade_gym.testing import check_designer


class Sound:
    name = "sound"

    def write(self, requests):
        return [DesignReply(request, f"reply {request.seed}") for request in requests]


class Nameless(Sound):
    name = ""


class Short(Sound):
    def write(self, requests):
        return super().write(requests)[1:]


class Silent(Sound):
    def write(self, requests):
        return [DesignReply(request, "") for request in requests]


class Failing(Sound):
    def write(self, requests):
        return [DesignReply(request, "", error="no") for request in requests]


class Moody(Sound):
    count = itertools.count()

    def write(self, requests):
        return [DesignReply(request, f"reply {next(self.count)}") for request in requests]


class Forgetful(Sound):
    def __init__(self):
        self.count = itertools.count()

    def write(self, requests):
        return [DesignReply(request, f"reply {next(self.count)}") for request in requests]


class Mindful(Forgetful):
    def seen(self, reply):
        next(self.count)


class Twice(Sound):
    def write(self, requests):
        return [dataclasses.replace(reply, origin=(("a", "b"), ("a", "c"))) for reply in super().write(requests)]


@pytest.mark.parametrize("make", [Sound, Mindful])
def test_sound_designers_conform(make) -> None:
    check_designer(make)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (Nameless, "needs a name"),
        (Short, "in order"),
        (Silent, "neither a text nor an error"),
        (Failing, "all replies are errors: no"),
        (Moody, "equal replies from a fresh designer"),
        (Forgetful, "after a restart"),
        (Twice, "has a key twice"),
    ],
)
def test_bad_designers_are_told_what_is_wrong(make, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_designer(make)
