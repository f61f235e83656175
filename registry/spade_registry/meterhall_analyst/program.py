import itertools
import json
import random

REGISTER = 100_000
PAGE = 5


def text(description):
    return {"type": "string", "description": description}


def whole(description):
    return {"type": "integer", "description": description}


class MeterhallAnalystEnv(ToolUseBaseEnv):
    """Work out consumption figures from raw meter readings."""

    CORRECTIONS = 3

    def __init__(self, max_turns=45, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        customer = f"CU-{rng.randint(100, 999)}"
        street = rng.choice(["Dyer Street", "Elm Row", "North Quay"])
        numbers = iter(rng.sample(range(1000, 9999), 6))
        reading_ids = itertools.count(rng.randint(100, 800), rng.randint(2, 5))
        self._meters = {}
        for kind in ("electricity", "gas", "water"):
            start = REGISTER - rng.randint(100, 220) if kind == "electricity" else rng.randint(2000, 60_000)
            self._meters[f"MT{next(numbers)}"] = {
                "kind": kind,
                "customer": customer,
                "address": f"{rng.randint(1, 60)} {street}",
                "readings": self._series(rng, start, reading_ids),
            }
        power, gas, water = self._meters
        for number in numbers:  # meters of other customers
            self._meters[f"MT{number}"] = {
                "kind": rng.choice(["gas", "water"]),
                "customer": "CU-000",
                "address": f"{rng.randint(61, 90)} {street}",
                "readings": self._series(rng, rng.randint(2000, 60_000), reading_ids)[:4],
            }
        self._prices = {"electricity": 31, "gas": rng.randint(9, 14), "water": 240, "per_day": rng.choice([18, 22, 25])}
        suspect = self._insert_suspect(rng, self._meters[water]["readings"], next(reading_ids))
        watts, flow, burnt = (self._meters[meter]["readings"] for meter in (power, water, gas))
        turn = next(n for n in range(1, len(watts)) if watts[n][2] < watts[n - 1][2])
        early, late = watts[rng.randrange(turn)], watts[rng.randrange(turn, len(watts))]
        sound = [row for row in flow if row[3] == ""]
        peak = max(itertools.pairwise(sound), key=lambda two: (two[1][2] - two[0][2]) / (two[1][1] - two[0][1]))
        begin, end = burnt[rng.randint(0, 4)], burnt[rng.randint(8, 12)]
        cost = (end[2] - begin[2]) * self._prices["gas"] + (end[1] - begin[1]) * self._prices["per_day"]
        self._answers = {"power": (late[2] - early[2]) % REGISTER, "suspect": suspect, "peak": peak[1][1], "cost": cost}
        self._state = {"reports": {}, "wrong": 0}
        self._user_messages = [
            f"How many kilowatt hours of electricity did customer {customer} use between the readings of day "
            f"{early[1]} and day {late[1]}? Mind that the register has five digits. Save it as 'power'. Only "
            f"{self.CORRECTIONS} wrong reports are tolerated in all.",
            "One reading of the customer's water meter is marked as suspect. Save its reading id as 'suspect'.",
            "Leave that one aside. Between which two neighbouring readings of the water meter was the use per day "
            "highest? Save the day of the later one as 'peak'.",
            f"What does gas cost from day {begin[1]} to day {end[1]}, with the standing charge for each of these "
            "days (the difference of the day numbers)? Save the amount in cents as 'cost'.",
        ]
        self._message_criteria = [self._reported(title, value) for title, value in self._answers.items()]
        self._customer = customer
        self._tools = {
            "find_meters": self._page(
                "Meters of a customer, optionally of one kind.", customer_id=text("CU-..."), kind=text("")
            ),
            "get_meter": self._page("Master data of a meter.", meter_id=text("MT...")),
            "list_readings": self._page(
                "Five readings (id, day, value, mark) per page in the order of days.",
                meter_id=text("MT..."),
                cursor=whole("where the next page starts; 0 at first"),
            ),
            "tariff": self._page("Prices in cents per unit, and standing charge per day.", customer_id=text("CU-...")),
            "save_report": self._page("File a number under a title.", title=text("as requested"), value=whole("")),
        }
        self._tools["find_meters"]["function"]["parameters"]["required"].remove("kind")
        self._tools["list_readings"]["function"]["parameters"]["required"].remove("cursor")
        for name, tool in self._tools.items():
            tool["function"]["name"] = name
        return self._user_messages[0], {}

    @staticmethod
    def _page(description, **properties):
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {"type": "function", "function": {"description": description, "parameters": parameters}}

    @staticmethod
    def _series(rng, value, reading_ids):
        """Thirteen readings (id, day, value, mark); all rates differ, so that the peak is unique."""
        day, series = rng.randint(1, 6), []
        for rate in rng.sample(range(4, 21), 13):
            series.append((next(reading_ids), day, value % REGISTER, ""))
            gap = rng.randint(5, 12)
            day, value = day + gap, value + gap * rate
        return series

    @staticmethod
    def _insert_suspect(rng, series, reading_id):
        spot = rng.randint(4, 8)
        before, after = series[spot - 1], series[spot]
        series.insert(spot, (reading_id, (before[1] + after[1]) // 2, after[2] + 900, "suspect"))
        return reading_id

    @staticmethod
    def _reported(title, value):
        def reported(state):
            return state["reports"].get(title) == value

        return reported

    def tool_find_meters(self, customer_id, kind=None):
        chosen = {
            meter: data["kind"]
            for meter, data in self._meters.items()
            if data["customer"] == customer_id and kind in (None, "", data["kind"])
        }
        return json.dumps(chosen)

    def tool_get_meter(self, meter_id):
        for meter, data in self._meters.items():
            if meter == meter_id:
                return json.dumps({key: data[key] for key in ("kind", "customer", "address")})
        return json.dumps(None)

    def tool_list_readings(self, meter_id, cursor=0):
        if not isinstance(meter_id, str) or meter_id not in self._meters:
            return json.dumps({"problem": "unknown meter"})
        series = self._meters[meter_id]["readings"]
        if isinstance(cursor, bool) or cursor not in range(0, len(series)):
            return json.dumps({"problem": f"the cursor must be a number from 0 to {len(series) - 1}"})
        start = int(cursor)
        page = [dict(zip(("id", "day", "value", "mark"), row, strict=True)) for row in series[start : start + PAGE]]
        return json.dumps({"page": page, "next_cursor": start + PAGE if start + PAGE < len(series) else None})

    def tool_tariff(self, customer_id):
        known = any(data["customer"] == customer_id for data in self._meters.values())
        return json.dumps(self._prices if known else {"problem": "unknown customer"})

    def tool_save_report(self, title, value):
        if not isinstance(title, str) or title not in self._answers:
            return json.dumps({"problem": "unknown title", "titles": list(self._answers)})
        if not isinstance(value, int) or isinstance(value, bool):
            return json.dumps({"problem": "the value must be a whole number"})
        if self._state["wrong"] > self.CORRECTIONS:
            return json.dumps({"problem": "too many wrong reports; the desk is closed"})
        self._state["reports"][title] = value
        self._state["wrong"] += value != self._answers[title]
        return json.dumps({"saved": title})

    def solution(self):
        power, gas, water = itertools.islice(self._meters, 3)

        def pages(meter):
            yield {"name": "get_meter", "arguments": {"meter_id": meter}}
            for start in range(0, len(self._meters[meter]["readings"]), PAGE):
                yield {"name": "list_readings", "arguments": {"meter_id": meter, "cursor": start}}

        def report(*titles):
            for title in titles:
                yield {"name": "save_report", "arguments": {"title": title, "value": self._answers[title]}}

        whose = {"customer_id": self._customer}
        script = itertools.chain(
            [{"name": "find_meters", "arguments": whose}],
            pages(power),
            report("power"),
            pages(water),
            report("suspect", "peak"),
            pages(gas),
            [{"name": "tariff", "arguments": whose}],
            report("cost"),
        )
        return "\n".join([f"<tool_call>{json.dumps(call)}</tool_call>" for call in script] + ["<answer>done</answer>"])
