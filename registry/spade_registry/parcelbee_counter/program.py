import enum
import functools
import json
import random
from typing import NamedTuple


class Scan(enum.Enum):
    CREATED = "created"
    COLLECTED = "collected"
    DEPOT = "depot"
    OUT = "out"
    FAILED = "failed"
    DELIVERED = "delivered"
    RETURNED = "returned"
    CANCELLED = "cancelled"


class Parcel(NamedTuple):
    recipient: str
    contents: str
    address: str
    scan: Scan
    service: str
    declared: int
    held_days: int = 0
    retry_day: int = 0
    claim: tuple = ()


# Which scans a tool accepts.
ALLOWED = {
    "redirect": {Scan.CREATED, Scan.COLLECTED, Scan.DEPOT},
    "hold_at_depot": {Scan.DEPOT},
    "retry_delivery": {Scan.FAILED},
    "return_to_sender": {Scan.DEPOT, Scan.FAILED},
    "cancel_shipment": {Scan.CREATED},
    "open_claim": {Scan.DELIVERED},
}


def has_become(tracking, parcel, parcels):
    return parcels[tracking] == parcel


class ParcelbeeCounterEnv(ToolUseBaseEnv):
    """Customers say what they want, never which service does it; the state of a parcel decides."""

    PEOPLE = ("Ida Fromm", "Leon Sadek", "Maud Okoye", "Nils Varga", "Oona Petit", "Raul Benz", "Tilda Ashe")
    GOODS = ("books", "a lamp", "shoes", "a kettle", "seeds", "a radio", "curtains", "a globe", "plates", "paint")
    DEADLINE = 7

    def __init__(self, max_turns=30, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = 0
        self._call_history = []
        self._current_msg = 0
        self._expected_answer = "done"
        self._today = rng.randint(10, 200)
        numbers = [f"PB{number}" for number in rng.sample(range(10_000, 99_999), 10)]
        people, goods = rng.sample(self.PEOPLE, 5), iter(rng.sample(self.GOODS, 10))

        def parcel(person, scan):
            street = f"{rng.randint(1, 90)} {rng.choice(['Pear', 'Forge', 'Canal', 'Abbey'])} Street"
            service, declared = rng.choice(["standard", "express"]), rng.randint(20, 90) * 100
            return Parcel(person, next(goods), street, scan, service, declared)

        mover, traveller, absent, regretful, unlucky = people
        withdrawn = rng.choice([Scan.CREATED, Scan.FAILED])
        scans = [rng.choice([Scan.COLLECTED, Scan.DEPOT]), Scan.DEPOT, Scan.FAILED, withdrawn, Scan.DELIVERED]
        self._state = {}
        asked = []
        for number, person, scan in zip(numbers[::2], people, scans, strict=True):
            asked.append((number, parcel(person, scan)))
        other = [parcel(person, rng.choice([Scan.OUT, Scan.DELIVERED])) for person in people]
        pairs = asked + list(zip(numbers[1::2], other, strict=True))
        rng.shuffle(pairs)
        self._state.update(pairs)
        address = f"{rng.randint(100, 190)} Orchard Road"
        back, again = self._today + rng.randint(2, self.DEADLINE), self._today + rng.randint(1, 4)
        (t1, p1), (t2, p2), (t3, p3), (t4, p4), (t5, p5) = asked
        loss = p5.declared + rng.choice([-700, 800, 1500])
        self._user_messages = [
            f"Today is day {self._today}. I am {mover} and I have moved: the parcel with {p1.contents} has to come "
            f"to '{address}'.",
            f"{traveller} here. I am travelling until day {back}, so nobody should try to bring me {p2.contents} "
            "before.",
            f"My name is {absent}. I missed your driver who had {p3.contents} for me. I am at home on day {again}.",
            f"This is {regretful}. I do not want {p4.contents} any more. Please see to it that the shop does not "
            "lose it.",
            f"{unlucky} speaking. {p5.contents.capitalize()} arrived broken, the loss is {loss} cents. Get me as "
            "much as the rules allow.",
        ]
        gone = Scan.CANCELLED if withdrawn is Scan.CREATED else Scan.RETURNED
        outcomes = [
            (t1, p1._replace(address=address)),
            (t2, p2._replace(held_days=back - self._today)),
            (t3, p3._replace(retry_day=again, scan=Scan.OUT)),
            (t4, p4._replace(scan=gone)),
            (t5, p5._replace(claim=("damaged", min(loss, p5.declared)))),
        ]
        self._message_criteria = [functools.partial(has_become, *outcome) for outcome in outcomes]
        self._answers = [
            ("redirect", t1, {"address": address}),
            ("hold_at_depot", t2, {"days": back - self._today}),
            ("retry_delivery", t3, {"day": again}),
            ("cancel_shipment" if withdrawn is Scan.CREATED else "return_to_sender", t4, {}),
            ("open_claim", t5, {"kind": "damaged", "amount": min(loss, p5.declared)}),
        ]
        string, integer = {"type": "string"}, {"type": "integer"}
        tracking = {"tracking": string}
        kinds = {"type": "string", "enum": ["damaged", "late"]}
        self._tools = [
            self._tool(
                "find_parcels", {"recipient": string}, "Tracking numbers and contents by name of the recipient."
            ),
            self._tool("track", tracking, "Everything about a parcel."),
            self._tool("redirect", tracking | {"address": string}, "New address, until the parcel is out."),
            self._tool("hold_at_depot", tracking | {"days": integer}, "Keep a parcel 1 to 7 days from today."),
            self._tool("retry_delivery", tracking | {"day": integer}, "Another attempt on a day after a failed one."),
            self._tool("return_to_sender", tracking, "Send an undelivered parcel back. Final."),
            self._tool("cancel_shipment", tracking, "Withdraw a shipment that was not collected yet. Final."),
            self._tool(
                "open_claim",
                tracking | {"kind": kinds, "amount": integer},
                "Claim cents for a delivered parcel, at most the declared value. Only one claim per parcel.",
            ),
        ]
        return self._user_messages[0], {}

    @staticmethod
    def _tool(name, properties, description):
        parameters = {"type": "object", "properties": properties, "required": sorted(properties)}
        return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    def _change(self, tool, tracking, **fields):
        """Replaces fields of a parcel if its last scan permits the tool."""
        parcel = self._state.get(tracking) if isinstance(tracking, str) else None
        match parcel:
            case None:
                return "Unknown tracking number."
            case Parcel(scan=scan) if scan not in ALLOWED[tool]:
                return f"Not possible: the last scan is '{scan.value}'."
            case Parcel(scan=Scan.DEPOT, held_days=days) if days and tool == "hold_at_depot":
                return "Not possible: the parcel is on hold already."
            case Parcel(claim=claim) if claim and tool == "open_claim":
                return "Not possible: there is a claim already."
        self._state[tracking] = parcel._replace(**fields)
        return "Done. " + self.tool_track(tracking)

    def tool_find_parcels(self, recipient):
        lines = [
            f"{number}: {parcel.contents}" for number, parcel in self._state.items() if parcel.recipient == recipient
        ]
        return "; ".join(lines) if lines else "No parcel for this name."

    def tool_track(self, tracking):
        for number, parcel in self._state.items():
            if number == tracking:
                return json.dumps(parcel._replace(scan=parcel.scan.value)._asdict())
        return "Unknown tracking number."

    def tool_redirect(self, tracking, address):
        if not isinstance(address, str) or not 5 <= len(address.strip()) <= 80:
            return "An address in words is needed."
        return self._change("redirect", tracking, address=address.strip())

    def tool_hold_at_depot(self, tracking, days):
        if isinstance(days, bool) or days not in [*range(1, 8)]:
            return "The number of days must be 1 to 7."
        return self._change("hold_at_depot", tracking, held_days=days)

    def tool_retry_delivery(self, tracking, day):
        if isinstance(day, bool) or day not in [*range(self._today + 1, self._today + 15)]:
            return f"The day must be {self._today + 1} to {self._today + 14}."
        return self._change("retry_delivery", tracking, retry_day=day, scan=Scan.OUT)

    def tool_return_to_sender(self, tracking):
        return self._change("return_to_sender", tracking, scan=Scan.RETURNED)

    def tool_cancel_shipment(self, tracking):
        return self._change("cancel_shipment", tracking, scan=Scan.CANCELLED)

    def tool_open_claim(self, tracking, kind, amount):
        if kind not in ("damaged", "late"):
            return "The kind must be 'damaged' or 'late'."
        declared = self._state[tracking].declared if isinstance(tracking, str) and tracking in self._state else 0
        if not isinstance(amount, int) or isinstance(amount, bool) or not 1 <= amount <= declared:
            return "The amount must be positive and not above the declared value."
        return self._change("open_claim", tracking, claim=(kind, amount))

    def solution(self):
        def call(name, arguments):
            return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"

        lines = []
        for tool, tracking, arguments in self._answers:
            lines.append(call("find_parcels", {"recipient": self._state[tracking].recipient}))
            lines.append(call("track", {"tracking": tracking}))
            lines.append(call(tool, {"tracking": tracking} | arguments))
        return "\n".join(lines) + "\n<answer>done</answer>"
