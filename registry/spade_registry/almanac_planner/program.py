import json
import random

DAYS = ["mon", "tue", "wed", "thu", "fri"]
OPENING, SLOT, SLOTS = 480, 30, 20  # minutes after midnight, minutes, half hours of a day


class AlmanacPlannerEnv(ToolUseBaseEnv):
    """Calendars and rooms are two services; a meeting needs both, and moving it gives up the room.

    Times inside are (day, slot) with slots of half an hour; a day's engagements are the bits of an integer.
    """

    def __init__(self, max_turns=45, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        team = rng.sample(["Arne", "Bela", "Chidi", "Dora", "Emil", "Farah", "Gus"], 5)
        sizes = dict(zip(rng.sample(["Attic", "Bridge", "Cellar", "Dock", "Forum"], 4), (2, 3, 4, 8), strict=True))
        meeting, cancelled, talk = rng.sample(["budget", "launch", "hiring", "survey", "audit", "redesign"], 3)
        pair, third, lonely, guest = team[:2], team[2], *team[3:]
        self._state = {"team": team, "sizes": sizes, "events": {}, "serial": rng.randint(10, 50)}
        day, slot = rng.randrange(5), rng.randrange(2, 15)
        spare = list(sizes)[rng.randrange(3)]
        old = self._enter(cancelled, (day, slot), 2, [lonely], spare)
        # Late hours stay free for everybody, and so does the largest room: every request can be fulfilled.
        for when in range(5):
            for person in team:
                for start in rng.sample(range(0, 16, 4), 3):
                    self._enter_if_free("call", (when, start), rng.randint(2, 4), [person])
            for room in list(sizes)[:3]:
                self._enter_if_free("lesson", (when, rng.randrange(14)), rng.randint(3, 6), [], room)
        for when in range(rng.randint(0, 2)):
            self._enter("journey", (when, 0), SLOTS, [rng.choice(pair)])
        self._empty_out([guest], (day, slot), 2)
        length = rng.choice([2, 3])
        first = self._earliest(pair, length)
        if rng.random() < 0.5:
            self._enter("journey", (first[0], 0), SLOTS, [third])
        else:
            self._enter_if_free("dentist", first, 1, [third])
        second = self._earliest([*pair, third], length)
        seat, hall = self._smallest(first, length, 2), self._smallest(second, length, 3)
        minutes = length * SLOT
        self._user_messages = [
            f"Set up a meeting '{meeting}' of {minutes} minutes for {pair[0]} and {pair[1]}: the earliest day of the "
            "week, and on it the earliest time, when both are free, in the smallest room that is large enough and "
            "free then.",
            f"{third} must take part in '{meeting}' as well. Move it to the earliest time of the week that suits all "
            "three, again in the smallest room that is large enough and free.",
            f"{lonely}'s event '{cancelled}' on {DAYS[day]} is off. Use the same time and room for a new event "
            f"'{talk}' of {lonely} and {guest}, with the same length.",
        ]

        def in_books(title, when, slots, people, room):
            wanted = [title, *when, slots, sorted(people), room]
            return lambda s: wanted in [[*event[:4], sorted(event[4]), event[5]] for event in s["events"].values()]

        replaced = in_books(talk, (day, slot), 2, [lonely, guest], spare)
        self._message_criteria = [
            in_books(meeting, first, length, pair, seat),
            in_books(meeting, second, length, [*pair, third], hall),
            lambda s: replaced(s) and old not in s["events"],
        ]
        new, newer = (f"EV{self._state['serial'] + ahead}" for ahead in (1, 2))
        self._diary = [["list_rooms"]]
        self._diary += [["find_slot", pair, DAYS[when], minutes] for when in range(first[0] + 1)]
        self._diary += [["room_free", room, *self._public(first), minutes] for room in sizes]
        self._diary += [["create_event", meeting, *self._public(first), minutes, pair], ["book_room", new, seat]]
        self._diary += [["find_slot", [*pair, third], DAYS[when], minutes, new] for when in range(second[0] + 1)]
        self._diary += [["move_event", new, *self._public(second)], ["add_attendee", new, third]]
        self._diary += [["book_room", new, hall], ["list_events", lonely, DAYS[day]], ["delete_event", old]]
        self._diary += [
            ["create_event", talk, *self._public((day, slot)), 60, [lonely, guest]],
            ["book_room", newer, spare],
        ]
        self._declare()
        return self._user_messages[0], {}

    def _declare(self):
        string, integer = {"type": "string"}, {"type": "integer"}
        names = {"type": "array", "items": string}
        day = {"type": "string", "enum": DAYS}
        event, start = {"event_id": string}, {"day": day, "start": integer}
        self._tools = {}
        for name, description, properties, optional in (
            ("list_events", "Events of a person on a day.", {"person": string, "day": day}, []),
            ("list_rooms", "Rooms and the number of people they hold.", {}, []),
            ("room_free", "Whether a room is free.", {"room": string, **start, "length": integer}, []),
            (
                "find_slot",
                "First start on a day when all are free; ignore_event is treated as if it did not exist.",
                {"people": names, "day": day, "length": integer, "ignore_event": string},
                ["ignore_event"],
            ),
            (
                "create_event",
                "New event without a room. start and length are minutes in steps of 30; 9:30 is 570.",
                {"title": string, **start, "length": integer, "attendees": names},
                [],
            ),
            ("move_event", "Another time; gives up the room.", {**event, **start}, []),
            ("delete_event", "Remove an event and give up its room.", event, []),
            ("add_attendee", "Add a person who is free.", {**event, "person": string}, []),
            ("book_room", "Book a room for an event, instead of any room it has.", {**event, "room": string}, []),
        ):
            parameters = {"type": "object", "properties": properties}
            parameters["required"] = [key for key in properties if key not in optional]
            function = {"name": name, "description": description, "parameters": parameters}
            self._tools[name] = {"type": "function", "function": function}

    @staticmethod
    def _public(when):
        return DAYS[when[0]], OPENING + SLOT * when[1]

    @staticmethod
    def _bits(slot, length):
        return ((1 << length) - 1) << slot

    def _mask(self, names, day, ignored=None):
        """Engagements of people or rooms on a day."""
        mask = 0
        for key, (_, when, slot, length, people, room) in self._state["events"].items():
            if when == day and key != ignored and not {*people, room}.isdisjoint(names):
                mask |= self._bits(slot, length)
        return mask

    def _fits(self, names, when, length, ignored=None):
        inside = when[1] + length <= SLOTS
        return inside and not self._mask(names, when[0], ignored) & self._bits(when[1], length)

    def _enter(self, title, when, length, people, room=None):
        self._state["serial"] += 1
        key = f"EV{self._state['serial']}"
        self._state["events"][key] = [title, *when, length, people, room]
        return key

    def _enter_if_free(self, title, when, length, people, room=None):
        if self._fits([*people, room] if room else people, when, length):
            self._enter(title, when, length, people, room)

    def _empty_out(self, people, when, length):
        for key, (_, day, slot, long, guests, _) in list(self._state["events"].items()):
            clash = self._bits(slot, long) & self._bits(when[1], length)
            if day == when[0] and clash and not set(people).isdisjoint(guests):
                del self._state["events"][key]

    def _earliest(self, people, length):
        times = ((day, slot) for day in range(5) for slot in range(SLOTS))
        return next(when for when in times if self._fits(people, when, length))

    def _smallest(self, when, length, heads):
        fitting = (room for room, size in self._state["sizes"].items() if size >= heads)
        return next(room for room in fitting if self._fits([room], when, length))

    @staticmethod
    def _when(day, start):
        """(day, slot) of a public time, None if there is no such time."""
        if day not in DAYS or type(start) is not int or start % SLOT or not 0 <= start - OPENING < SLOT * SLOTS:
            return None
        return DAYS.index(day), (start - OPENING) // SLOT

    @staticmethod
    def _slots(length):
        good = type(length) is int and 0 < length <= SLOT * SLOTS and length % SLOT == 0
        return length // SLOT if good else None

    def _known(self, people):
        good = isinstance(people, list) and 0 < len(people) <= 5 and all(p in self._state["team"] for p in people)
        return sorted(set(people)) if good else None

    def _event(self, event_id):
        return self._state["events"].get(event_id) if isinstance(event_id, str) else None

    def tool_list_events(self, person, day):
        if person not in self._state["team"] or day not in DAYS:
            return "error: unknown person or day"
        lines = []
        for key, (title, when, slot, length, people, room) in self._state["events"].items():
            if person in people and DAYS[when] == day:
                start = OPENING + SLOT * slot
                where = f" in {room}" if room else ""
                lines.append(f"{start:04d} to {start + SLOT * length}: {key} '{title}' of {', '.join(people)}{where}")
        return "\n".join(sorted(lines)) or "no events"

    def tool_list_rooms(self):
        return json.dumps(self._state["sizes"])

    def tool_room_free(self, room, day, start, length):
        when, slots = self._when(day, start), self._slots(length)
        if when is None or slots is None or room not in list(self._state["sizes"]):
            return "error: unknown room or bad time"
        return "free" if self._fits([room], when, slots) else "taken"

    def tool_find_slot(self, people, day, length, ignore_event=None):
        names, slots = self._known(people), self._slots(length)
        if names is None or slots is None or day not in DAYS:
            return "error: unknown people, day or length"
        index = DAYS.index(day)
        for slot in range(SLOTS):
            if self._fits(names, (index, slot), slots, ignore_event):
                return f"first free start on {day}: {OPENING + SLOT * slot}"
        return f"no common time on {day}"

    def tool_create_event(self, title, day, start, length, attendees):
        names, when, slots = self._known(attendees), self._when(day, start), self._slots(length)
        if None in (names, when, slots) or not isinstance(title, str) or len(self._state["events"]) > 200:
            return "error: bad title, time, length or attendees"
        if not self._fits(names, when, slots):
            return "error: conflict or too late in the day"
        return "created " + self._enter(title.strip()[:40], when, slots, names)

    def tool_move_event(self, event_id, day, start):
        event, when = self._event(event_id), self._when(day, start)
        if event is None or when is None:
            return "error: unknown event or bad time"
        if not self._fits(event[4], when, event[3], event_id):
            return "error: conflict or too late in the day"
        event[1], event[2], event[5] = *when, None
        return "moved; the event has no room now"

    def tool_delete_event(self, event_id):
        if self._event(event_id) is None:
            return "error: unknown event"
        del self._state["events"][event_id]
        return "deleted"

    def tool_add_attendee(self, event_id, person):
        event = self._event(event_id)
        if event is None or person not in self._state["team"] or person in event[4]:
            return "error: unknown event or person, or present already"
        if not self._fits([person], event[1:3], event[3]):
            return f"error: conflict, {person} is busy then"
        if event[5] and self._state["sizes"][event[5]] <= len(event[4]):
            return "error: the room of the event is too small for one more"
        event[4] = sorted([*event[4], person])
        return "added"

    def tool_book_room(self, event_id, room):
        event = self._event(event_id)
        if event is None or room not in list(self._state["sizes"]):
            return "error: unknown event or room"
        if self._state["sizes"][room] < len(event[4]):
            return "error: too small"
        if not self._fits([room], event[1:3], event[3], event_id):
            return "error: room taken"
        event[5] = room
        return "booked"

    def solution(self):
        actions = []
        for name, *values in self._diary:
            keys = self._tools[name]["function"]["parameters"]["properties"]
            call = {"name": name, "arguments": dict(zip(keys, values, strict=False))}
            actions.append(f"<tool_call>{json.dumps(call)}</tool_call>\n")
        return "".join(actions) + "<answer>done</answer>"
