import json
import random


class BinwiseRecoveryEnv(ToolUseBaseEnv):
    """Warehouse tasks in which the first attempt is refused and has to be repaired."""

    def __init__(self, max_turns=30, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        words = rng.sample(["bolt", "hinge", "valve", "gasket", "spring"], 3)
        a, b, c = skus = [f"{word}-{rng.randint(10, 99)}" for word in words]
        shelves, overflow = rng.sample(["A-01-1", "A-01-2", "B-04-3", "B-07-2", "D-03-1"], 3), "C-02-1"
        stock = {(sku, shelf): rng.randint(40, 80) for sku, shelf in zip(skus, shelves, strict=True)}
        stock.update({(sku, overflow): rng.randint(5, 15) for sku in skus})
        self._state = {
            "stock": stock,
            "version": {sku: rng.randint(3, 9) for sku in skus},
            "pack": {sku: rng.choice([6, 8, 12]) for sku in skus},
            "picked": dict.fromkeys(skus, 0),
            "counts": [],
            "purchases": [],
            "colleague_at": [a],
        }
        start = dict(stock)
        take_a, take_b, moved = rng.randint(5, 20), rng.randint(5, 15), rng.randint(6, 12)
        counted = stock[b, shelves[1]] - rng.randint(12, 18)
        at_least = rng.randint(30, 70)
        supplier = rng.choice(["Norwick", "Pell & Sons"])
        pack = self._state["pack"][c]
        buy = at_least + -at_least % pack
        version = dict(self._state["version"])
        self._user_messages = [
            f"Pick {take_a} {a} from bin {shelves[0]}. My sheet says the version is {version[a] - 1}, but it may be "
            "old.",
            f"I have just counted {counted} pieces of {b} in bin {shelves[1]}. Record that, accept the count if the "
            f"system asks, and then pick {take_b} of them.",
            f"Order {c} from {supplier}: I need at least {at_least} pieces, and not a whole pack more than necessary.",
            f"Move {moved} pieces of {c} from {shelves[2]} to {overflow}.",
        ]

        def picked(sku, shelf, quantity, before):
            return lambda s: (s["picked"][sku], s["stock"][sku, shelf]) == (quantity, before - quantity)

        self._message_criteria = [
            picked(a, shelves[0], take_a, start[a, shelves[0]]),
            picked(b, shelves[1], take_b, counted),
            lambda s: [p for p in s["purchases"] if p and p[0] == c] == [(c, buy, supplier)],
            lambda s: s["stock"][c, overflow] - start[c, overflow] == moved,
        ]
        self._script = [
            {"name": "get_item", "arguments": {"sku": a}},
            {"name": "pick", "arguments": {"sku": a, "bin": shelves[0], "quantity": take_a, "version": version[a]}},
            {"name": "get_item", "arguments": {"sku": a}},
            {"name": "pick", "arguments": {"sku": a, "bin": shelves[0], "quantity": take_a, "version": version[a] + 1}},
            {"name": "count", "arguments": {"sku": b, "bin": shelves[1], "counted": counted}},
            {"name": "resolve_discrepancy", "arguments": {"discrepancy_id": "DX1", "action": "accept"}},
            {"name": "pick", "arguments": {"sku": b, "bin": shelves[1], "quantity": take_b, "version": version[b] + 1}},
            {"name": "get_item", "arguments": {"sku": c}},
            {"name": "create_purchase", "arguments": {"sku": c, "quantity": buy, "supplier": supplier}},
            {
                "name": "move_stock",
                "arguments": {
                    "sku": c,
                    "from_bin": shelves[2],
                    "to_bin": overflow,
                    "quantity": moved,
                    "version": version[c],
                },
            },
        ]
        self._tools = {
            name: {"type": "function", "function": {"name": name, "description": text, "parameters": self._shape(keys)}}
            for name, keys, text in (
                ("get_item", "sku", "Stock per bin, version and pack size."),
                ("pick", "sku bin quantity version", "Take stock from a bin; needs the current version."),
                ("put_back", "sku bin quantity version", "Return picked pieces to a bin; needs the current version."),
                ("move_stock", "sku from_bin to_bin quantity version", "Move stock; needs the current version."),
                ("count", "sku bin counted", "Record a physical count. More than ten percent off opens a discrepancy."),
                ("resolve_discrepancy", "discrepancy_id action", "action: accept or recount."),
                ("create_purchase", "sku quantity supplier", "Order from a supplier in multiples of the pack size."),
                ("cancel_purchase", "purchase_id", "Withdraw a purchase."),
            )
        }
        return self._user_messages[0], {}

    @staticmethod
    def _shape(keys):
        numeric = {"quantity", "version", "counted"}
        properties = {key: {"type": "integer" if key in numeric else "string"} for key in keys.split()}
        return {"type": "object", "properties": properties, "required": list(properties)}

    @staticmethod
    def _first(*checks):
        """The code of the first check that fails, as the service reports it."""
        return next((json.dumps({"error": code}) for failed, code in checks if failed), None)

    @staticmethod
    def _is_amount(value, low=1):
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= 10_000

    def _in_bin(self, sku, shelf):
        known = isinstance(sku, str) and isinstance(shelf, str)
        return self._state["stock"].get((sku, shelf)) if known else None

    def _write_error(self, sku, version):
        """Tests a change of an item; a colleague changes some items just before the first good attempt."""
        versions = self._state["version"]
        if not isinstance(sku, str) or sku not in versions:
            return json.dumps({"error": "not_found"})
        if version == versions[sku] and sku in self._state["colleague_at"]:
            self._state["colleague_at"].remove(sku)
            versions[sku] += 1
        blocked = any(entry["open"] and entry["sku"] == sku for entry in self._state["counts"])
        return self._first((version != versions[sku], "version_conflict"), (blocked, "discrepancy_open"))

    def _changed(self, sku):
        self._state["version"][sku] += 1
        return json.dumps({"ok": True, "version": self._state["version"][sku]})

    def tool_get_item(self, sku):
        if not isinstance(sku, str) or sku not in self._state["version"]:
            return json.dumps({"error": "not_found"})
        bins = {shelf: amount for (owner, shelf), amount in self._state["stock"].items() if owner == sku}
        return json.dumps({"bins": bins} | {key: self._state[key][sku] for key in ("version", "pack", "picked")})

    def tool_pick(self, sku, bin, quantity, version):
        error = self._write_error(sku, version) or self._first(
            (not self._is_amount(quantity), "bad_quantity"),
            (self._is_amount(quantity) and quantity > (self._in_bin(sku, bin) or 0), "not_enough"),
        )
        if error:
            return error
        self._state["stock"][sku, bin] -= quantity
        self._state["picked"][sku] += quantity
        return self._changed(sku)

    def tool_put_back(self, sku, bin, quantity, version):
        error = self._write_error(sku, version) or self._first(
            (self._in_bin(sku, bin) is None, "unknown_bin"),
            (not self._is_amount(quantity) or quantity > self._state["picked"][sku], "bad_quantity"),
        )
        if error:
            return error
        self._state["stock"][sku, bin] += quantity
        self._state["picked"][sku] -= quantity
        return self._changed(sku)

    def tool_move_stock(self, sku, from_bin, to_bin, quantity, version):
        error = self._write_error(sku, version) or self._first(
            (from_bin == to_bin or None in (self._in_bin(sku, from_bin), self._in_bin(sku, to_bin)), "unknown_bin"),
            (not self._is_amount(quantity), "bad_quantity"),
            (self._is_amount(quantity) and quantity > (self._in_bin(sku, from_bin) or 0), "not_enough"),
        )
        if error:
            return error
        self._state["stock"][sku, from_bin] -= quantity
        self._state["stock"][sku, to_bin] += quantity
        return self._changed(sku)

    def tool_count(self, sku, bin, counted):
        recorded = self._in_bin(sku, bin)
        error = self._first(
            (recorded is None, "unknown_bin"),
            (not self._is_amount(counted, low=0), "bad_count"),
            (len(self._state["counts"]) >= 50, "too_many_counts"),
        )
        if error:
            return error
        if abs(counted - recorded) * 10 > recorded:
            self._state["counts"].append({"sku": sku, "bin": bin, "counted": counted, "open": True})
            return json.dumps({"discrepancy_id": f"DX{len(self._state['counts'])}", "recorded": recorded})
        self._state["stock"][sku, bin] = counted
        return self._changed(sku)

    def tool_resolve_discrepancy(self, discrepancy_id, action):
        labelled = {f"DX{n}": entry for n, entry in enumerate(self._state["counts"], 1) if entry["open"]}
        if str(discrepancy_id) not in labelled or action not in ("accept", "recount"):
            return json.dumps({"error": "bad_request"})
        entry = labelled[str(discrepancy_id)]
        entry["open"] = False
        if action == "accept":
            self._state["stock"][entry["sku"], entry["bin"]] = entry["counted"]
        return self._changed(entry["sku"])

    def tool_create_purchase(self, sku, quantity, supplier):
        pack = self._state["pack"].get(sku) if isinstance(sku, str) else None
        error = self._first(
            (pack is None, "not_found"),
            (len(self._state["purchases"]) >= 50, "too_many_purchases"),
            (not self._is_amount(quantity), "bad_quantity"),
            (pack and self._is_amount(quantity) and quantity % pack, "pack_size"),
        )
        if error:
            return error
        self._state["purchases"].append((sku, quantity, str(supplier)[:60]))
        return json.dumps({"purchase_id": f"PO{len(self._state['purchases'])}"})

    def tool_cancel_purchase(self, purchase_id):
        for n, purchase in enumerate(self._state["purchases"]):
            if purchase and purchase_id == f"PO{n + 1}":
                self._state["purchases"][n] = None
                return json.dumps({"ok": True})
        return json.dumps({"error": "not_found"})

    def solution(self):
        return (
            "".join(f"<tool_call>{json.dumps(call)}</tool_call>\n" for call in self._script) + "<answer>done</answer>"
        )
