import json
import random


def _declare(name, description, properties, optional=()):
    required = [key for key in properties if key not in optional]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class CartwheelOrdersEnv(ToolUseBaseEnv):
    """A help-desk worker edits, redirects, cancels and refunds mail-order purchases."""

    STREETS = ("14 Mill Lane", "3 Quay Street", "88 Orchard Road", "21 Castle Hill", "5 Foundry Yard")
    PRICES = {"MUG-BLU": 950, "TEA-250": 620, "JAR-HON": 780, "KET-STL": 3490, "TIN-BIS": 540}
    REASONS = ("customer_request", "out_of_stock", "duplicate")

    def __init__(self, max_turns=20, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = 0
        self._call_history = []
        self._current_msg = 0
        self._expected_answer = "done"
        numbers = rng.sample(range(1000, 1999), 5)
        orders = {}
        for number, street, status in zip(
            numbers, self.STREETS, ("placed", "packed", "placed", "shipped", "delivered"), strict=True
        ):
            skus = rng.sample(sorted(self.PRICES), 2)
            orders[f"O-{number}"] = {
                "customer": f"C-{rng.randint(10, 99)}",
                "lines": {sku: {"quantity": rng.randint(1, 3), "unit_price": self.PRICES[sku]} for sku in skus},
                "address": street,
                "status": status,
                "refunded": 0,
            }
        self._state = {"orders": orders}
        edited, redirected, cancelled = (f"O-{number}" for number in numbers[:3])
        sku = sorted(orders[edited]["lines"])[0]
        wanted = orders[edited]["lines"][sku]["quantity"] + rng.randint(1, 3)
        street = f"{rng.randint(30, 70)} Harbour Walk"
        total = self._total(orders[cancelled])
        self._user_messages = [
            f"Hello, please make the quantity of {sku} in my order {edited} exactly {wanted}.",
            f"Thanks. My other order {redirected} is going to my old flat. Send it to '{street}' instead.",
            f"One more thing: cancel {cancelled}, I ordered it by mistake, and give me the full amount back.",
        ]
        self._message_criteria = [
            lambda s: s["orders"][edited]["lines"][sku]["quantity"] == wanted,
            lambda s: s["orders"][redirected]["address"] == street,
            lambda s: s["orders"][cancelled]["status"] == "cancelled" and s["orders"][cancelled]["refunded"] == total,
        ]
        self._reference = [
            ("set_quantity", {"order_id": edited, "sku": sku, "quantity": wanted}),
            ("change_address", {"order_id": redirected, "address": street}),
            ("get_order", {"order_id": cancelled}),
            ("cancel_order", {"order_id": cancelled, "reason": "customer_request"}),
            ("issue_refund", {"order_id": cancelled, "amount": total}),
        ]
        order_id = {"order_id": {"type": "string", "description": "for example O-1042"}}
        text, whole = {"type": "string"}, {"type": "integer"}
        declared = [
            _declare("get_order", "Return one order; prices are in cents.", dict(order_id)),
            _declare("list_orders", "List order ids, optionally by status.", {"status": text}, ["status"]),
            _declare("change_address", "New address; placed or packed orders only.", {**order_id, "address": text}),
            _declare(
                "set_quantity",
                "Change the quantity (1 to 99) of a line of a placed order.",
                {**order_id, "sku": text, "quantity": whole},
            ),
            _declare(
                "cancel_order",
                "Cancel a placed order. reason: customer_request, out_of_stock or duplicate.",
                {**order_id, "reason": text},
            ),
            _declare("issue_refund", "Refund cents on a cancelled order.", {**order_id, "amount": whole}),
        ]
        self._tools = {tool["function"]["name"]: tool for tool in declared}
        return self._user_messages[0], {}

    @staticmethod
    def _total(order):
        return sum(line["quantity"] * line["unit_price"] for line in order["lines"].values())

    def _order(self, order_id, *statuses):
        order = self._state["orders"].get(str(order_id))
        if order is None:
            return None, json.dumps({"error": "not_found"})
        if statuses and order["status"] not in statuses:
            return None, json.dumps({"error": "bad_status", "status": order["status"]})
        return order, ""

    def tool_get_order(self, order_id):
        order, error = self._order(order_id)
        return error or json.dumps({"order_id": str(order_id), **order, "total": self._total(order)})

    def tool_list_orders(self, status=None):
        return json.dumps([key for key, order in self._state["orders"].items() if status in (None, order["status"])])

    def tool_change_address(self, order_id, address):
        order, error = self._order(order_id, "placed", "packed")
        if error:
            return error
        order["address"] = str(address)[:120]
        return json.dumps({"ok": True})

    def tool_set_quantity(self, order_id, sku, quantity):
        order, error = self._order(order_id, "placed")
        if error:
            return error
        if str(sku) not in order["lines"]:
            return json.dumps({"error": "no_such_line"})
        if type(quantity) is not int or not 1 <= quantity <= 99:
            return json.dumps({"error": "bad_quantity"})
        order["lines"][str(sku)]["quantity"] = quantity
        return json.dumps({"ok": True, "total": self._total(order)})

    def tool_cancel_order(self, order_id, reason):
        order, error = self._order(order_id, "placed")
        if error:
            return error
        if reason not in self.REASONS:
            return json.dumps({"error": "bad_reason", "allowed": self.REASONS})
        order["status"] = "cancelled"
        return json.dumps({"ok": True})

    def tool_issue_refund(self, order_id, amount):
        order, error = self._order(order_id, "cancelled")
        if error:
            return error
        if type(amount) is not int or not 1 <= amount <= self._total(order) - order["refunded"]:
            return json.dumps({"error": "bad_amount"})
        order["refunded"] += amount
        return json.dumps({"ok": True, "refunded": order["refunded"]})

    def solution(self):
        calls = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in self._reference]
        return "\n".join([*(f"<tool_call>{call}</tool_call>" for call in calls), "<answer>done</answer>"])
