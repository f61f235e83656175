import json
import random


class Account:
    __slots__ = ("balance", "frozen", "kind", "limit", "number", "owner", "paid")

    def __init__(self, number, owner, kind, balance, limit, frozen=False):
        self.number, self.owner, self.kind = number, owner, kind
        self.balance, self.limit, self.frozen = balance, limit, frozen
        self.paid = 0

    def sheet(self):
        return (
            f"{self.number} {self.kind} account of {self.owner}: balance {self.balance}, "
            f"daily limit {self.limit}, paid today {self.paid}{', FROZEN' if self.frozen else ''}"
        )


class Payment:
    __slots__ = ("amount", "code", "day", "payee", "payer", "reference", "status")

    def __init__(self, payer, payee, amount, reference, day, status, code=None):
        self.payer, self.payee, self.amount, self.reference = payer, payee, amount, reference
        self.day, self.status, self.code = day, status, code


class Bank:
    """The books of a bank on one day. All amounts are cents."""

    TODAY = 40
    APPROVAL_FROM = 100_000

    def __init__(self, codes):
        self.accounts = []
        self.payments = []
        self.codes = codes

    def account(self, number):
        return next((account for account in self.accounts if account.number == number), None)

    def payment(self, label, status):
        for position, payment in enumerate(self.payments, 1):
            if label == f"T{position}" and payment.status == status:
                return payment
        return None

    def objection(self, payer, payee, amount):
        if payer is None or payee is None or payer is payee:
            return "not_found: payer and payee must be two known accounts"
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 < amount < 10**9:
            return "bad_amount: a positive whole number of cents is needed"
        if payer.kind == "savings" and (payee.kind != "current" or payee.owner != payer.owner):
            return "savings_rule: savings are paid out to a current account of the same owner only"
        frozen = [account.number for account in (payer, payee) if account.frozen]
        if frozen:
            return f"frozen: account {frozen[0]} is frozen"
        if payer.balance < amount:
            return f"insufficient_funds: {payer.balance} available on {payer.number}"
        if payer.paid + amount > payer.limit:
            return f"daily_limit: {payer.paid} of {payer.limit} paid today from {payer.number}"
        return ""

    def settle(self, payment):
        payer, payee = self.account(payment.payer), self.account(payment.payee)
        payer.balance -= payment.amount
        payer.paid += payment.amount
        payee.balance += payment.amount
        payment.status = "booked"


class TillbankRecoveryEnv(ToolUseBaseEnv):
    """Every natural first attempt is refused, each time for another reason."""

    def __init__(self, max_turns=40, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = 0
        self._call_history = []
        self._current_msg = 0
        self._expected_answer = "done"
        current, savings, timber, landlord, club, shop = (f"AC{n}" for n in rng.sample(range(100, 999), 6))
        bill, rent = rng.randint(30, 60) * 1000, rng.randint(105, 140) * 1000
        fee, lamp = rng.randint(20, 90) * 50, rng.randint(11, 39) * 100 + 99
        me = rng.choice(["R. Vance", "Ada Quill", "Jon Pereira"])
        bank = Bank(codes=[f"{rng.randint(0, 9999):04d}" for _ in range(60)])
        bank.accounts += [
            Account(current, me, "current", bill - rng.randint(5, 20) * 1000, 90_000),
            Account(savings, me, "savings", 400_000, 300_000),
            Account(timber, "Oakline Timber", "current", 90_000, 200_000),
            Account(landlord, "Harrow Lettings", "current", 50_000, 200_000),
            Account(club, "Rowing Club", "current", 7_000, 50_000, frozen=True),
            Account(shop, "Lamp Shop", "current", 60_000, 50_000),
        ]
        days = [Bank.TODAY - rng.randint(1, 3), Bank.TODAY]
        rng.shuffle(days)
        bank.payments += [Payment(current, shop, lamp, "lamp", day, "booked") for day in days]
        self._state = bank
        invoice = f"INV-{rng.randint(100, 999)}"
        self._user_messages = [
            f"I am {me}, current account {current}. Please pay {bill} cents to {timber} (Oakline Timber), reference "
            f"'{invoice}'. If there is not enough money, use what is on my savings account {savings}.",
            f"Now the rent: {rent} cents from {savings} by way of {current} to {landlord}, reference 'rent'. You may "
            "raise limits as needed.",
            f"Pay {fee} cents from {current} to {club}, reference 'membership'. The club told me that a freeze on "
            "their account was put there by mistake; you are allowed to lift it.",
            f"I was charged twice for a lamp. Today is day {Bank.TODAY}: reverse the charge made today, and leave "
            "the earlier one.",
        ]
        orders = [(timber, bill, invoice), (landlord, rent, "rent"), (club, fee, "membership")]
        self._message_criteria = [self._paid(current, *order) for order in orders]
        self._message_criteria.append(
            lambda books: ["booked", "reversed"] == [p.status for p in sorted(books.payments[:2], key=lambda p: p.day)]
        )
        self._plan = (current, savings, orders, f"T{1 + days.index(Bank.TODAY)}")
        self._tools = {}
        for line in self.MANUAL.strip().splitlines():
            head, _, description = line.strip().partition(" -- ")
            name, *keys = head.split()
            properties = {key: {"type": "integer" if key in ("amount", "new_limit") else "string"} for key in keys}
            self._tools[name] = {
                "type": "function",
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": {"type": "object", "properties": properties, "required": keys},
                },
            }
        return self._user_messages[0], {}

    MANUAL = """
        get_account account_id -- Owner, balance, limit and state of an account. Amounts are cents.
        list_accounts owner -- The accounts of an owner.
        list_transactions account_id -- Transactions of an account with their days.
        transfer source target amount reference -- Move money. From 100000 cents on, an approval is needed.
        request_code transaction_id -- Obtain the one-time code of a pending transfer.
        approve transaction_id code -- Execute a pending transfer.
        raise_limit account_id new_limit -- Raise the daily limit, at most to 500000.
        unfreeze account_id reason -- Lift a freeze; a reason of at least five letters is required.
        reverse transaction_id -- Undo a transfer that was made today.
    """

    @staticmethod
    def _paid(payer, payee, amount, reference):
        wanted = (payer, payee, amount, reference, "booked")
        return lambda books: wanted in [(p.payer, p.payee, p.amount, p.reference, p.status) for p in books.payments]

    def tool_get_account(self, account_id):
        account = self._state.account(account_id)
        return account.sheet() if account else "REFUSED not_found"

    def tool_list_accounts(self, owner):
        return "\n".join(account.sheet() for account in self._state.accounts if account.owner == owner) or "none"

    def tool_list_transactions(self, account_id):
        lines = [
            f"T{n}: day {p.day}, {p.amount} from {p.payer} to {p.payee}, '{p.reference}', {p.status}"
            for n, p in enumerate(self._state.payments, 1)
            if account_id in (p.payer, p.payee)
        ]
        return "\n".join(lines) or "none"

    def tool_transfer(self, source, target, amount, reference):
        bank = self._state
        objection = bank.objection(bank.account(source), bank.account(target), amount)
        if objection or len(bank.payments) >= len(bank.codes):
            return f"REFUSED {objection or 'too_many_transfers'}"
        code = bank.codes[len(bank.payments)]
        payment = Payment(source, target, amount, str(reference)[:60], bank.TODAY, "pending", code)
        bank.payments.append(payment)
        label = f"T{len(bank.payments)}"
        if amount >= bank.APPROVAL_FROM:
            return f"PENDING transaction {label} waits for an approval"
        bank.settle(payment)
        return f"BOOKED transaction {label}"

    def tool_request_code(self, transaction_id):
        payment = self._state.payment(transaction_id, "pending")
        return f"The code is {payment.code}" if payment else "REFUSED not_pending"

    def tool_approve(self, transaction_id, code):
        bank = self._state
        payment = bank.payment(transaction_id, "pending")
        if payment is None:
            return "REFUSED not_pending"
        if str(code).zfill(4) != payment.code:
            return "REFUSED bad_code"
        objection = bank.objection(bank.account(payment.payer), bank.account(payment.payee), payment.amount)
        if objection:
            return f"REFUSED {objection}"
        bank.settle(payment)
        return f"BOOKED transaction {transaction_id}"

    def tool_raise_limit(self, account_id, new_limit):
        account = self._state.account(account_id)
        if account is None:
            return "REFUSED not_found"
        if type(new_limit) is not int or not account.limit <= new_limit <= 500_000:
            return f"REFUSED bad_limit: {account.limit} to 500000 is possible"
        account.limit = new_limit
        return f"OK {account.sheet()}"

    def tool_unfreeze(self, account_id, reason):
        account = self._state.account(account_id)
        if account is None:
            return "REFUSED not_found"
        if not isinstance(reason, str) or len(reason.strip()) < 5:
            return "REFUSED reason_too_short"
        account.frozen = False
        return f"OK {account.sheet()}"

    def tool_reverse(self, transaction_id):
        bank = self._state
        payment = bank.payment(transaction_id, "booked")
        if payment is None:
            return "REFUSED not_booked"
        if payment.day != bank.TODAY:
            return "REFUSED too_old"
        payer, payee = bank.account(payment.payer), bank.account(payment.payee)
        if payee.balance < payment.amount:
            return "REFUSED insufficient_funds"
        payee.balance -= payment.amount
        payer.balance += payment.amount
        payment.status = "reversed"
        return f"OK {transaction_id} is reversed"

    def solution(self):
        current, savings, orders, twin = self._plan
        (timber, bill, invoice), (landlord, rent, _), (club, fee, _) = orders
        top_up = {"source": savings, "target": current, "amount": 80_000, "reference": "top-up"}
        actions = [
            self._action("list_accounts", owner=self._state.account(current).owner),
            self._action("transfer", **top_up | {"amount": 60_000}),
            self._action("transfer", source=current, target=timber, amount=bill, reference=invoice),
            *[self._action("transfer", **top_up)] * 2,
            self._action("raise_limit", account_id=current, new_limit=500_000),
            self._action("transfer", source=current, target=landlord, amount=rent, reference="rent"),
            self._action("request_code", transaction_id="T7"),
            self._action("approve", transaction_id="T7", code=self._state.codes[6]),
            self._action("unfreeze", account_id=club, reason="mistake"),
            self._action("transfer", source=current, target=club, amount=fee, reference="membership"),
            self._action("list_transactions", account_id=current),
            self._action("reverse", transaction_id=twin),
        ]
        return "\n".join([*actions, "<answer>done</answer>"])

    @staticmethod
    def _action(tool, **arguments):
        return f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>"
