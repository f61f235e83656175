import json
import random

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
MEGABYTES = {"P1": 2000, "P2": 8000, "P3": 30000}

# tool -> what it says about itself, its arguments, and the kind of thing the first argument names
CATALOGUE = {
    "find_customer": ("Find the customer and the line of a phone number.", {"phone": TEXT}, None),
    "get_line": ("Details of a line.", {"line_id": TEXT}, "line"),
    "list_bills": ("Bills of a customer.", {"customer_id": TEXT}, "customer"),
    "send_payment_request": ("Ask the customer to pay a bill.", {"bill_id": TEXT}, "bill"),
    "pay_bill": ("Settle a bill after a payment request.", {"bill_id": TEXT}, "bill"),
    "suspend_line": ("Switch service off.", {"line_id": TEXT}, "line"),
    "resume_line": ("Switch service on; refused while a bill is overdue.", {"line_id": TEXT}, "line"),
    "list_plans": ("Plans with their allowance in megabytes.", {}, None),
    "change_plan": (
        "Change the plan of an active line; refused while a ticket of the line is open.",
        {"line_id": TEXT, "plan_id": TEXT},
        "line",
    ),
    "refuel": ("Add at most 2 gigabytes of data.", {"line_id": TEXT, "gigabytes": NUMBER}, "line"),
    "set_roaming": ("Switch roaming on or off.", {"line_id": TEXT, "enabled": FLAG}, "line"),
    "swap_sim": ("Put a line into a device that no active line uses.", {"line_id": TEXT, "device_id": TEXT}, "line"),
    "list_tickets": ("Tickets of a line.", {"line_id": TEXT}, "line"),
    "close_ticket": ("Close a ticket with a resolution.", {"ticket_id": TEXT, "resolution": TEXT}, "ticket"),
}


class SwitchyardServiceEnv(ToolUseBaseEnv):
    """Customer service for mobile lines; every request hides a prerequisite."""

    def __init__(self, max_turns=40, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        name = rng.choice(["Ruth Calder", "Milo Ferrant", "Sana Iqbal", "Piet Verbeek"])
        customer, bill, ticket = f"C{rng.randint(100, 999)}", f"B{rng.randint(100, 999)}", f"K{rng.randint(10, 99)}"
        dead, second, old = (f"L{number}" for number in rng.sample(range(10, 99), 3))
        phones = [f"555-{number}" for number in rng.sample(range(1000, 9999), 3)]
        devices = [f"D-{number}" for number in rng.sample(range(1000, 9999), 3)]
        facts = self._state = {}

        def tell(thing, kind, **fields):
            facts.update({(thing, "kind"): kind} | {(thing, field): value for field, value in fields.items()})

        tell(customer, "customer", name=name)
        lines = zip((dead, second, old), phones, devices, ("P1", "P2", "P1"), strict=True)
        for line, phone, device, plan in lines:
            used = {dead: rng.randint(200, 1900), second: rng.randint(3000, 6000), old: 0}[line]
            tell(line, "line", customer=customer, phone=phone, device=device, plan=plan, used_mb=used)
            tell(line, "line", status="suspended" if line == dead else "active", roaming=False, extra_mb=0)
        tell(bill, "bill", customer=customer, cents=rng.randint(20, 60) * 100, status="overdue", requested=False)
        tell("B001", "bill", customer=customer, cents=1500, status="paid", requested=True)
        tell(ticket, "ticket", line=dead, category="slow_data", status="open", resolution="")
        gigabytes, plan = rng.choice([3, 3.5, 4]), rng.choice(["P2", "P3"])
        self._user_messages = [
            f"Good morning, {name} speaking. My number {phones[0]} has been dead since yesterday. If there is "
            "something to pay I agree to pay it. Please get the line working.",
            f"Thank you. Put that line on plan {plan}. The slow data I reported is fine again, by the way.",
            f"I am going abroad: enable roaming for {phones[0]} and add {gigabytes} GB of extra data, not more.",
            f"Last thing: my line {phones[1]} shall use the device {devices[2]}. My old number {phones[2]} is in it; "
            "that one can be suspended.",
        ]
        goals = [
            {(dead, "status"): "active", (bill, "status"): "paid"},
            {(dead, "plan"): plan},
            {(dead, "roaming"): True, (dead, "extra_mb"): round(gigabytes * 1000)},
            {(second, "device"): devices[2], (second, "status"): "active", (old, "status"): "suspended"},
        ]
        self._message_criteria = [lambda state, goal=goal: goal.items() <= state.items() for goal in goals]
        self._tools = []
        for tool, (description, properties, _) in CATALOGUE.items():
            shape = {"type": "object", "properties": properties, "required": list(properties)}
            self._tools.append(
                {"type": "function", "function": {"name": tool, "description": description, "parameters": shape}}
            )
        self._path = [
            ("find_customer", phones[0]),
            ("list_bills", customer),
            ("send_payment_request", bill),
            ("pay_bill", bill),
            ("resume_line", dead),
            ("list_tickets", dead),
            ("close_ticket", ticket, "works again"),
            ("change_plan", dead, plan),
            ("set_roaming", dead, True),
            ("refuel", dead, 2),
            ("refuel", dead, gigabytes - 2),
            ("find_customer", phones[2]),
            ("suspend_line", old),
            ("find_customer", phones[1]),
            ("swap_sim", second, devices[2]),
        ]
        return self._user_messages[0], {}

    def _where(self, kind, **fields):
        """Things of a kind whose fields have the given values, in the order in which they were told."""
        facts = self._state
        things = [thing for (thing, field), value in facts.items() if field == "kind" and value == kind]
        return [thing for thing in things if all(facts[thing, key] == value for key, value in fields.items())]

    def _show(self, *things):
        cards = {}
        for (thing, field), value in self._state.items():
            if thing in things:
                cards.setdefault(thing, {})[field] = value
        return json.dumps(cards)

    def _act(self, tool, subject, changes, *refusals):
        """Applies changes to the subject unless it is of the wrong kind or a refusal holds."""
        kind = CATALOGUE[tool][2]
        if subject not in self._where(kind):
            return f"{tool}: there is no such {kind}"
        for refused, reason in refusals:
            if refused:
                return f"{tool}: refused, {reason}"
        self._state.update({(subject, field): value for field, value in changes.items()})
        return f"{tool}: ok " + self._show(subject)

    def _get(self, subject, field, default=None):
        return self._state.get((subject, field), default) if isinstance(subject, str) else default

    def tool_find_customer(self, phone):
        lines = self._where("line", phone=phone)
        return self._show(*lines, *(self._state[line, "customer"] for line in lines))

    def tool_get_line(self, line_id):
        return self._act("get_line", line_id, {})

    def tool_list_bills(self, customer_id):
        return self._show(*self._where("bill", customer=customer_id))

    def tool_send_payment_request(self, bill_id):
        paid = self._get(bill_id, "status") == "paid"
        return self._act("send_payment_request", bill_id, {"requested": True}, (paid, "it is paid already"))

    def tool_pay_bill(self, bill_id):
        silent = not self._get(bill_id, "requested")
        return self._act("pay_bill", bill_id, {"status": "paid"}, (silent, "no payment request was sent"))

    def tool_suspend_line(self, line_id):
        return self._act("suspend_line", line_id, {"status": "suspended"})

    def tool_resume_line(self, line_id):
        overdue = self._where("bill", customer=self._get(line_id, "customer"), status="overdue")
        sharing = self._where("line", device=self._get(line_id, "device"), status="active")
        return self._act(
            "resume_line",
            line_id,
            {"status": "active"},
            (overdue, "a bill of the customer is overdue"),
            (set(sharing) - {str(line_id)}, "another active line uses the device"),
        )

    def tool_list_plans(self):
        return json.dumps(MEGABYTES)

    def tool_change_plan(self, line_id, plan_id):
        allowance = MEGABYTES.get(plan_id) if isinstance(plan_id, str) else None
        return self._act(
            "change_plan",
            line_id,
            {"plan": plan_id},
            (allowance is None, "there is no such plan"),
            (self._where("ticket", line=line_id, status="open"), "a ticket of this line is open"),
            (self._get(line_id, "status") != "active", "the line is not active"),
            (self._get(line_id, "used_mb", 0) > (allowance or 0), "more is used than the plan allows"),
        )

    def tool_refuel(self, line_id, gigabytes):
        unfit = not isinstance(gigabytes, int | float) or isinstance(gigabytes, bool) or not 0 < gigabytes <= 2
        extra = self._get(line_id, "extra_mb", 0) + (0 if unfit else round(gigabytes * 1000))
        return self._act(
            "refuel",
            line_id,
            {"extra_mb": extra},
            (unfit, "more than 0 and at most 2 gigabytes are possible"),
            (extra > 20_000, "the line has too much extra data"),
        )

    def tool_set_roaming(self, line_id, enabled):
        return self._act(
            "set_roaming", line_id, {"roaming": enabled}, (enabled not in (True, False), "say true or false")
        )

    def tool_swap_sim(self, line_id, device_id):
        known = {value for (_, field), value in self._state.items() if field == "device"}
        users = [line for line in self._where("line", device=device_id, status="active") if line != line_id]
        return self._act(
            "swap_sim",
            line_id,
            {"device": device_id},
            (device_id not in sorted(known), "there is no such device"),
            (users, f"line {' '.join(users)} is active in the device"),
        )

    def tool_list_tickets(self, line_id):
        return self._show(*self._where("ticket", line=line_id))

    def tool_close_ticket(self, ticket_id, resolution):
        words = resolution.strip()[:200] if isinstance(resolution, str) else ""
        changes = {"status": "closed", "resolution": words}
        return self._act("close_ticket", ticket_id, changes, (not words, "a resolution in words is needed"))

    def solution(self):
        out = []
        for tool, *values in self._path:
            arguments = dict(zip(CATALOGUE[tool][1], values, strict=True))
            out.append(f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>")
        out.append("<answer>done</answer>")
        return "\n".join(out)
