import json
import random

ROOM_TYPES = ("single", "double", "suite")
LAST_NIGHT = 120


def nights(first, last):
    """A bit for each night from ``first`` up to, not including, ``last``."""
    return (1 << last) - (1 << first)


class Room:
    def __init__(self, hotel, number, room_type, price):
        self.hotel, self.number, self.room_type, self.price = hotel, number, room_type, price
        self.taken = 0

    def is_free(self, first, last):
        return not self.taken & nights(first, last)


class Stay:
    """A room for some nights: held first, then confirmed, or released."""

    def __init__(self, room, first, last, guest):
        self.room, self.first, self.last, self.guest = room, first, last, guest
        self.status = "held"
        self.extras = []
        self.due = self.price()
        self.upgraded = False
        room.taken |= nights(first, last)

    def price(self):
        return self.room.price * (self.last - self.first)

    def shift(self, room, first, last):
        """Moves to another room or other nights if these are free; tells whether it did."""
        self.room.taken &= ~nights(self.first, self.last)
        if room is None or not room.is_free(first, last):
            self.room.taken |= nights(self.first, self.last)
            return False
        room.taken |= nights(first, last)
        self.room, self.first, self.last = room, first, last
        return True

    def card(self):
        extras = "+".join(self.extras) or "none"
        return (
            f"hotel={self.room.hotel} room={self.room.room_type} nights={self.first}-{self.last} guest={self.guest} "
            f"status={self.status} extras={extras} due={self.due} upgraded={self.upgraded}"
        )


class InnkeepConciergeEnv(ToolUseBaseEnv):
    """Book, extend and improve a hotel stay. Each request takes several dependent calls."""

    def __init__(self, max_turns=35, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        here, there = rng.sample(["Port Ellery", "Varn", "Oststrand", "Calder Bridge"], 2)
        self._hotels, rooms = {}, []
        for index, hundreds in enumerate(rng.sample(range(50, 91), 6)):
            hotel = f"H{index + 1}"
            self._hotels[hotel] = (here if index % 2 == 0 else there, (3, 4, 5)[index // 2])
            for step, room_type in enumerate(ROOM_TYPES):
                price = (hundreds + step * rng.randint(20, 40)) * 100
                rooms += [Room(hotel, n, room_type, price) for n in range(rng.randint(2, 3))]
        guest = rng.choice(["Nora Whitlow", "Tomas Reyl", "Imke Sand", "Joost Haar"])
        first = rng.randint(20, 90)
        last = first + rng.randint(2, 4)
        # One of the two good hotels may be full, so that availability has to be checked.
        good = sorted((r for r in rooms if r.room_type == "single" and r.hotel in ("H3", "H5")), key=lambda r: r.price)
        if rng.random() < 0.5:
            full = good[0].hotel
            for room in good:
                if room.hotel == full:
                    room.taken = nights(first, first + 1)
        best = next(room.hotel for room in good if room.is_free(first, last))
        self._state = {"rooms": rooms, "stays": {}, "payments": {}, "members": {guest: "gold", "Ugo Tamm": "silver"}}
        self._user_messages = [
            f"I need a single room in {here}, arriving on day {first} and leaving on day {last}, for {guest}: the "
            "cheapest hotel with at least four stars that has one free.",
            "Lovely. Add breakfast to that booking.",
            "I can stay one night longer. Extend the booking by one night at the end and settle the difference.",
            "I believe I am a member. If so, use my free upgrade for this stay.",
        ]
        booked = {"guest": guest, "status": "confirmed", "first": first}
        self._message_criteria = [
            self._expecting(best, booked | {"last": last, "due": 0}),
            self._expecting(best, booked, extra="breakfast"),
            self._expecting(best, booked | {"last": last + 1, "due": 0}),
            self._expecting(best, booked | {"last": last + 1, "upgraded": True}),
        ]
        rate = next(room.price for room in good if room.hotel == best)
        self._route = [
            {"search_hotels": {"city": here, "min_stars": 4}},
            {"check_availability": {"hotel_id": best, "room_type": "single", "first": first, "last": last}},
            {"hold": {"hotel_id": best, "room_type": "single", "first": first, "last": last, "guest": guest}},
            {"authorise_payment": {"guest": guest, "amount": rate * (last - first)}},
            {"confirm": {"stay_id": "ST1", "payment_id": "PY1"}},
            {"add_extra": {"stay_id": "ST1", "extra": "breakfast"}},
            {"change_dates": {"stay_id": "ST1", "first": first, "last": last + 1}},
            {"authorise_payment": {"guest": guest, "amount": rate}},
            {"settle": {"stay_id": "ST1", "payment_id": "PY2"}},
            {"get_member": {"guest": guest}},
            {"upgrade": {"stay_id": "ST1"}},
        ]
        self._tools = self._manual()
        return self._user_messages[0], {}

    @staticmethod
    def _expecting(hotel, fields, extra=None):
        def reached(state):
            for stay in state["stays"].values():
                same = all(getattr(stay, field) == value for field, value in fields.items())
                if same and stay.room.hotel == hotel and extra in (None, *stay.extras):
                    return True
            return False

        return reached

    @staticmethod
    def _manual():
        stay, payment = ("stay_id", "string"), ("payment_id", "string")
        days = (("first", "integer"), ("last", "integer"))
        room = (("hotel_id", "string"), ("room_type", "string"), *days)
        guest = ("guest", "string")
        pages = {
            "search_hotels": ("Hotels of a city.", (("city", "string"), ("min_stars", "integer"))),
            "check_availability": ("Free rooms and total price; last is the day of leaving.", room),
            "hold": ("Reserve a room; room types are single, double and suite.", (*room, guest)),
            "release": ("Give up a stay that is not confirmed yet.", (stay,)),
            "authorise_payment": ("Returns a payment id for an amount in cents.", (guest, ("amount", "integer"))),
            "confirm": ("Confirm a held stay; the payment must equal the price.", (stay, payment)),
            "get_stay": ("Show a stay.", (stay,)),
            "change_dates": ("Change the nights; the difference becomes due.", (stay, *days)),
            "settle": ("Pay exactly what is due.", (stay, payment)),
            "add_extra": ("breakfast, parking or cot.", (stay, ("extra", "string"))),
            "get_member": ("Loyalty level of a guest.", (guest,)),
            "upgrade": ("Free upgrade to the next room type, once per stay, gold members only.", (stay,)),
        }
        manual = {}
        for name, (description, keys) in pages.items():
            properties = {key: {"type": kind} for key, kind in keys}
            manual[name] = {"name": name, "description": description, "parameters": {"type": "object"}}
            manual[name]["parameters"] |= {"properties": properties, "required": list(properties)}
        return manual

    def _stay(self, stay_id, status):
        stay = self._state["stays"].get(stay_id) if isinstance(stay_id, str) else None
        return stay if stay is not None and stay.status == status else None

    def _rooms(self, hotel_id, room_type, first, last):
        whole = all(type(day) is int for day in (first, last))
        if not whole or not 1 <= first < last <= LAST_NIGHT:
            return []
        same = [r for r in self._state["rooms"] if r.hotel == hotel_id and r.room_type == room_type]
        return [room for room in same if room.is_free(first, last)]

    def _pay(self, payment_id, amount):
        """Uses up a payment of exactly this amount."""
        if not isinstance(payment_id, str) or self._state["payments"].get(payment_id) != amount:
            return False
        self._state["payments"][payment_id] = None
        return True

    def tool_search_hotels(self, city, min_stars):
        least = min_stars if type(min_stars) is int else 0
        found = [
            f"{hotel}: {stars} stars, rates per night "
            + " ".join(f"{r.room_type}={r.price}" for r in self._state["rooms"] if r.hotel == hotel and r.number == 0)
            for hotel, (place, stars) in self._hotels.items()
            if place == city and stars >= least
        ]
        return "\n".join(found) or "no hotel"

    def tool_check_availability(self, hotel_id, room_type, first, last):
        rooms = self._rooms(hotel_id, room_type, first, last)
        return f"free={len(rooms)} price={rooms[0].price * (last - first)}" if rooms else "free=0"

    def tool_hold(self, hotel_id, room_type, first, last, guest):
        rooms = self._rooms(hotel_id, room_type, first, last)
        if not rooms or len(self._state["stays"]) >= 40:
            return "error=full"
        stay_id = f"ST{len(self._state['stays']) + 1}"
        self._state["stays"][stay_id] = stay = Stay(rooms[0], first, last, str(guest)[:60])
        return f"stay_id={stay_id} {stay.card()}"

    def tool_release(self, stay_id):
        stay = self._stay(stay_id, "held")
        if stay is None:
            return "error=not_held"
        stay.room.taken &= ~nights(stay.first, stay.last)
        stay.status = "released"
        return stay.card()

    def tool_authorise_payment(self, guest, amount):
        if type(amount) is not int or not 0 < amount < 10_000_000 or not isinstance(guest, str):
            return "error=bad_amount"
        payment_id = f"PY{len(self._state['payments']) + 1}"
        self._state["payments"][payment_id] = amount
        return f"payment_id={payment_id}"

    def tool_confirm(self, stay_id, payment_id):
        stay = self._stay(stay_id, "held")
        if stay is None:
            return "error=not_held"
        if not self._pay(payment_id, stay.due):
            return "error=payment_mismatch"
        stay.due, stay.status = 0, "confirmed"
        return stay.card()

    def tool_get_stay(self, stay_id):
        stay = self._state["stays"].get(str(stay_id))
        return stay.card() if stay else "error=not_found"

    def tool_change_dates(self, stay_id, first, last):
        stay = self._stay(stay_id, "confirmed")
        if stay is None:
            return "error=not_confirmed"
        if not all(type(day) is int for day in (first, last)) or not 1 <= first < last <= LAST_NIGHT:
            return "error=bad_dates"
        before = stay.price()
        if not stay.shift(stay.room, first, last):
            return "error=full"
        stay.due = max(0, stay.due + stay.price() - before)
        return stay.card()

    def tool_settle(self, stay_id, payment_id):
        stay = self._stay(stay_id, "confirmed")
        if stay is None:
            return "error=not_confirmed"
        if not stay.due or not self._pay(payment_id, stay.due):
            return "error=payment_mismatch"
        stay.due = 0
        return stay.card()

    def tool_add_extra(self, stay_id, extra):
        stay = self._stay(stay_id, "confirmed")
        if stay is None or extra not in ("breakfast", "parking", "cot"):
            return "error=not_confirmed" if stay is None else "error=unknown_extra"
        if extra not in stay.extras:
            stay.extras.append(extra)
        return stay.card()

    def tool_get_member(self, guest):
        return f"level={self._state['members'].get(str(guest), 'none')}"

    def tool_upgrade(self, stay_id):
        stay = self._stay(stay_id, "confirmed")
        if stay is None:
            return "error=not_confirmed"
        if self._state["members"].get(stay.guest) != "gold" or stay.upgraded or stay.room.room_type == "suite":
            return "error=not_allowed"
        better = ROOM_TYPES[ROOM_TYPES.index(stay.room.room_type) + 1]
        if not stay.shift(
            next(iter(self._rooms(stay.room.hotel, better, stay.first, stay.last)), None), stay.first, stay.last
        ):
            return "error=full"
        stay.upgraded = True
        return stay.card()

    def solution(self):
        steps = [json.dumps({"name": name, "arguments": step[name]}) for step in self._route for name in step]
        return "<tool_call>" + "</tool_call>\n<tool_call>".join(steps) + "</tool_call>\n<answer>done</answer>"
