from __future__ import annotations

from conftest import make_program
from design_requests import make_request

from spade_gym.designer.attempt import Attempt
from spade_gym.designer.funnel import Funnel, funnel
from spade_gym.designer.request import DesignReply, Repair
from spade_gym.validation.finding import failure


def reply(**facts: object) -> DesignReply:
    return DesignReply(make_request(**facts), "text")


def test_every_attempt_is_counted_at_each_stage_that_it_reached():
    plain, fenced = make_program(), make_program(repairs=("remove_stray_fence",))
    mended = make_program(repairs=("missing_import", "remove_stray_fence"))
    found = funnel(
        [
            Attempt(reply(), "no_reply", (failure("reply", "cut off"),)),
            Attempt(reply(), "unread", (failure("syntax", "cut off"),)),
            Attempt(reply(), "unread", (failure("syntax", "cut off"),)),
            Attempt(reply(), "rejected", (failure("smoke", "it raises"), failure("reward", "9")), program=plain),
            Attempt(reply(), "rejected", (failure("reward", "9"),), program=fenced),
            Attempt(reply(), "duplicate", (failure("diversity", "the same"),), program=plain),
            Attempt(reply(), "accepted", program=plain),
            Attempt(reply(repair=Repair("x", ("y",))), "accepted", program=mended),
        ]
    )
    assert found == Funnel(
        asked=8,
        replied=7,
        parsed=5,
        executable=3,
        executable_raw=1,
        executable_fence=1,
        accepted=2,
        repaired=2,
        mended=1,
        why_not={"syntax": 2, "reply": 1, "smoke": 1, "reward": 1, "diversity": 1},
        repairs={"remove_stray_fence": 2, "missing_import": 1},
    )
    assert found.to_json()["why_not"]["syntax"] == 2
    assert sum(found.why_not.values()) + found.accepted == found.asked
    assert funnel([]) == Funnel()
