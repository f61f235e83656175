import json
import random
from collections import namedtuple

Title = namedtuple("Title", "title_id name author year")
Copy = namedtuple("Copy", "barcode title_id branch status")
Loan = namedtuple("Loan", "title_id start end branch")
Member = namedtuple("Member", "card name fees loans")

LABELS = ("shelf", "top", "longest", "payment")
FILINGS_PER_LABEL = 2


def rows(table, **wanted):
    """The rows of a table whose fields have the wanted values."""
    return [row for row in table if all(getattr(row, field) == value for field, value in wanted.items())]


class StackroomResearchEnv(ToolUseBaseEnv):
    """Answer questions about a library by combining several read-only calls."""

    def __init__(self, max_turns=40, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = 0
        self._call_history = []
        self._current_msg = 0
        self._expected_answer = "done"
        self._fill_library(rng)
        asked = rng.choice(rows(self._copies, status="shelf"))
        author = rng.choice(["E. Marrow", "L. Tessier", "H. Odell"])
        own = sorted(rows(self._titles, author=author), key=lambda title: self._number_of_loans(title))
        top = own[-1]
        if self._number_of_loans(top) == self._number_of_loans(own[-2]):  # make the winner unique
            self._loans.append(Loan(top.title_id, 310, 320, "central"))
        member = rng.choice(self._members)
        self._state = {"filed": [], "answers": {}}
        on_shelf = rows(self._copies, title_id=asked.title_id, branch=asked.branch, status="shelf")
        self._wanted = {
            "shelf": str(len(on_shelf)),
            "top": top.title_id,
            "longest": str(max(loan.end - loan.start for loan in rows(self._loans, title_id=top.title_id))),
            "payment": str(max(0, member.fees - 500)),
        }
        title = rows(self._titles, title_id=asked.title_id)[0]
        self._user_messages = [
            f"You do research for a library. How many copies of '{title.name}' are on the shelf at the "
            f"{asked.branch} branch right now? File the number under the label 'shelf'. Each label can be filed "
            f"{FILINGS_PER_LABEL} times.",
            f"Which title of {author} was lent most often? File its title id under 'top'.",
            "For that title, how many days did its longest loan last (end day minus start day)? File it under "
            "'longest'.",
            f"{member.name} wants to borrow a book. What is the smallest payment in cents after which the fees no "
            "longer stand in the way? (Checkout is refused above 500 cents.) File it under 'payment', 0 if nothing "
            "is needed.",
        ]
        self._message_criteria = [self._filed(label) for label in LABELS]
        self._walk = (title, [row.barcode for row in rows(self._copies, title_id=asked.title_id)], author, own, member)
        self._tools = [
            self._reader("search_titles", "query", "Title ids and names; query is part of the name or the author."),
            self._reader("get_title", "title_id", "Name, author, year and barcodes of the copies."),
            self._reader("get_copy", "barcode", "Branch and status of a copy."),
            self._reader("find_member", "name", "Member record by full name; fees in cents."),
            self._reader("loan_history", "title_id", "Past loans of a title with start and end day."),
            self._reader("file_finding", "label value", "File a value (number or id, as text) under a label."),
        ]
        return self._user_messages[0], {}

    def _fill_library(self, rng):
        nouns = ["Lantern", "Orchard", "Cartographer", "Winter", "Bridge", "Sparrow", "Glass", "Tide", "Clock"]
        branches = ["central", "harbour", "hilltop"]
        rng.shuffle(nouns)
        self._titles, self._copies, self._loans, self._members = [], [], [], []
        barcode = rng.randint(30000, 39000)
        for n, noun in enumerate(nouns):
            author = ("E. Marrow", "L. Tessier", "H. Odell")[n % 3]
            self._titles.append(Title(f"T{n + 1}", f"The {noun}", author, rng.randint(1960, 2015)))
            home = rng.choice(branches)
            for _ in range(rng.randint(4, 7)):
                barcode += rng.randint(1, 9)
                branch = rng.choice([home, home, *branches])
                status = rng.choice(["shelf", "shelf", "shelf", "loan", "repair", "transit"])
                self._copies.append(Copy(str(barcode), f"T{n + 1}", branch, status))
            for start in sorted(rng.sample(range(1, 300), rng.randint(5, 10))):
                self._loans.append(Loan(f"T{n + 1}", start, start + rng.randint(3, 40), rng.choice(branches)))
        for name in ("Vera Holm", "Anton Brix", "Yusuf Adeyemi", "Clara Ness"):
            fees = rng.choice([0, rng.randint(1, 49) * 10, rng.randint(51, 120) * 10, rng.randint(51, 120) * 10])
            self._members.append(Member(f"M{rng.randint(1000, 9999)}", name, fees, rng.randint(0, 10)))

    def _number_of_loans(self, title):
        return len(rows(self._loans, title_id=title.title_id))

    def _filed(self, label):
        right = self._wanted[label]
        return lambda state: state["answers"].get(label) == right

    @staticmethod
    def _reader(name, keys, description):
        properties = {key: {"type": "string"} for key in keys.split()}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    @staticmethod
    def _print(found):
        return json.dumps([row._asdict() for row in found]) if found else "nothing found"

    def tool_search_titles(self, query):
        words = str(query).casefold()
        hits = [row for row in self._titles if words in row.name.casefold() or words in row.author.casefold()]
        return ", ".join(f"{row.title_id} '{row.name}'" for row in hits) or "nothing found"

    def tool_get_title(self, title_id):
        found = rows(self._titles, title_id=title_id)
        barcodes = " ".join(row.barcode for row in rows(self._copies, title_id=title_id))
        return f"{self._print(found)} copies: {barcodes}" if found else "nothing found"

    def tool_get_copy(self, barcode):
        return self._print(rows(self._copies, barcode=str(barcode)))

    def tool_find_member(self, name):
        return self._print([row for row in self._members if row.name.casefold() == str(name).casefold()])

    def tool_loan_history(self, title_id):
        return self._print(rows(self._loans, title_id=title_id))

    def tool_file_finding(self, label, value):
        if label not in LABELS:
            return f"unknown label; the labels are {', '.join(LABELS)}"
        if self._state["filed"].count(label) >= FILINGS_PER_LABEL:
            return f"'{label}' was filed {FILINGS_PER_LABEL} times already and is closed"
        self._state["filed"].append(label)
        self._state["answers"][label] = str(value).strip()[:40]
        return f"filed under '{label}'"

    def solution(self):
        title, barcodes, author, own, member = self._walk
        steps = [("search_titles", title.name), ("get_title", title.title_id)]
        steps += [("get_copy", barcode) for barcode in barcodes]
        steps += [("file_finding", "shelf"), ("search_titles", author)]
        steps += [("loan_history", candidate.title_id) for candidate in own]
        steps += [("file_finding", "top"), ("file_finding", "longest")]
        steps += [("find_member", member.name), ("file_finding", "payment")]
        keys = {tool["function"]["name"]: tool["function"]["parameters"]["required"] for tool in self._tools}
        lines = []
        for name, argument in steps:
            values = [argument, self._wanted.get(argument)]
            arguments = {key: value for key, value in zip(keys[name], values, strict=False)}
            lines.append("".join(["<tool_call>", json.dumps({"name": name, "arguments": arguments}), "</tool_call>"]))
        return "\n".join([*lines, "<answer>done</answer>"])
