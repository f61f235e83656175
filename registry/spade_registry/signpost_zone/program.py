import json
import random
import re

PATTERNS = {
    "A": r"(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}",
    "MX": r"\d{1,3} [A-Za-z0-9.-]+\.",
    "CNAME": r"[A-Za-z0-9.-]+\.",
    "TXT": r"[ -~]{1,255}",
}
HELP = """
list_records()                  Records of the draft, each with its number.
add_record(name, type, value)   Add a record (A, MX, CNAME or TXT) to the draft; name is relative, '@' for the zone.
delete_record(number!)          Delete a record from the draft.
diff()                          Difference between draft and live.
discard()                       Drop the draft; the live records become the draft again.
check()                         Test the draft without publishing.
publish(comment)                Test the draft and make it live as a new version.
resolve(name, type)             Answer from live data for a full name such as www.example.test.
list_versions()                 Published versions and their comments.
rollback(version!)              Make the records of an earlier version the draft.
"""


class SignpostZoneEnv(ToolUseBaseEnv):
    """Operate the zone of a domain: draft, check, publish, roll back.

    Records are tuples (name, type, value); draft, live and every version are immutable sets of them.
    """

    def __init__(self, max_turns=40, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        zone = rng.choice(["marigold.test", "tinworks.test", "fernhill.test"])
        apex, www, shop, wrong, mail = (f"192.0.2.{n}" for n in rng.sample(range(2, 250), 5))
        fixed = {("@", "A", apex), ("shop", "A", shop), ("@", "TXT", f"owner={rng.randint(100, 999)}")}
        base = frozenset(fixed | {("www", "A", www)})
        host, priority = f"mail{rng.randint(2, 9)}", rng.choice([5, 10, 20])
        exchange = {(host, "A", mail), ("@", "MX", f"{priority} {host}.{zone}.")}
        with_mail = base | exchange
        with_alias = frozenset(fixed | exchange | {("www", "CNAME", f"shop.{zone}.")})
        unfinished = base - {("shop", "A", shop)} | {("test", "A", wrong)}
        self._state = {"draft": unfinished, "live": base, "versions": [("first", base, None)], "source": None}
        self._zone = zone
        self._user_messages = [
            f"In the zone {zone} a colleague left an unfinished draft. Get rid of it, without any change to what is "
            "live.",
            f"Mail for {zone} shall be handled by the new host {host}.{zone} with priority {priority}. Its address "
            f"is {mail}. Make it live.",
            f"www.{zone} shall become an alias of shop.{zone}. Make that live, too. Leave everything else as it is.",
            "The alias was a misunderstanding. Bring back exactly what was live before it, by way of a rollback and "
            "not by hand, since the list of versions is audited.",
        ]
        self._message_criteria = [
            lambda s: s["draft"] == s["live"] == base and len(s["versions"]) == 1,
            lambda s: s["live"] == with_mail,
            lambda s: s["live"] == with_alias,
            lambda s: s["live"] == with_mail and s["versions"][-1][2] is not None,
        ]
        self._plan = f"""
            diff
            discard
            add_record {host} | A | {mail}
            add_record @ | MX | {priority} {host}.{zone}.
            check
            publish mail host
            list_records
            delete_record {1 + sorted(with_mail).index(("www", "A", www))}
            add_record www | CNAME | shop.{zone}.
            publish www alias
            resolve www.{zone} | A
            list_versions
            rollback 2
            publish undo alias
        """
        self._tools = dict(map(self._read_help, HELP.strip().splitlines()))
        return self._user_messages[0], {}

    @staticmethod
    def _read_help(line):
        name, keys, description = re.fullmatch(r"(\w+)\(([^)]*)\) +(.*)", line).groups()
        kinds = {key.rstrip("!"): "integer" if key.endswith("!") else "string" for key in re.findall(r"\w+!?", keys)}
        parameters = {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in kinds.items()},
            "required": [*kinds],
        }
        return name, {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }

    def _relative(self, full):
        """The name within the zone, None for a name outside."""
        if full == self._zone:
            return "@"
        return full.removesuffix("." + self._zone) if full.endswith("." + self._zone) else None

    def _problems(self):
        draft = self._state["draft"]
        for name, kind, value in sorted(draft):
            if kind == "CNAME" and [other for other, _, _ in draft].count(name) > 1:
                yield f"{name}: CNAME beside another record"
            if kind == "MX":
                target = self._relative(value.split()[1].rstrip("."))
                if target is not None and not any(record[:2] == (target, "A") for record in draft):
                    yield f"{name}: the mail exchanger {value} has no address"

    def tool_list_records(self):
        return (
            "\n".join(f"{n}. {' '.join(record)}" for n, record in enumerate(sorted(self._state["draft"]), 1)) or "empty"
        )

    def tool_add_record(self, name, type, value):
        if not isinstance(name, str) or not re.fullmatch(r"@|[a-z0-9-]{1,40}", name):
            return "not added: bad name"
        if not isinstance(type, str) or type not in PATTERNS:
            return "not added: the type must be one of " + ", ".join(PATTERNS)
        if not isinstance(value, str) or not re.fullmatch(PATTERNS[type], value, re.ASCII):
            return (
                f"not added: bad value for {type} (names in MX and CNAME end with a dot, MX starts with the priority)"
            )
        if len(self._state["draft"]) >= 60:
            return "not added: the zone is full"
        self._state["draft"] |= {(name, type, value)}
        return "added to the draft"

    def tool_delete_record(self, number):
        numbered = dict(enumerate(sorted(self._state["draft"]), 1))
        if isinstance(number, bool) or not isinstance(number, int) or number not in numbered:
            return "nothing deleted: there is no such record"
        self._state["draft"] -= {numbered[number]}
        return "deleted from the draft: " + " ".join(numbered[number]) + " (the numbers of later records have changed)"

    def tool_diff(self):
        draft, live = self._state["draft"], self._state["live"]
        return json.dumps({"only in the draft": sorted(draft - live), "only live": sorted(live - draft)})

    def tool_discard(self):
        self._state.update(draft=self._state["live"], source=None)
        return "the draft equals what is live"

    def tool_check(self):
        return "; ".join(self._problems()) or "no problem found"

    def tool_publish(self, comment):
        problems = "; ".join(self._problems())
        if problems:
            return "not published: " + problems
        state = self._state
        state["versions"].append((str(comment)[:60], state["draft"], state["source"]))
        state.update(live=state["draft"], source=None)
        return f"version {len(state['versions'])} is live"

    def tool_resolve(self, name, type):
        label = self._relative(name) if isinstance(name, str) else None
        for _ in range(5):
            answers = [value for other, kind, value in sorted(self._state["live"]) if (other, kind) == (label, type)]
            alias = [value for other, kind, value in self._state["live"] if (other, kind) == (label, "CNAME")]
            if answers or not alias:
                return ", ".join(answers) or "no answer"
            label = self._relative(alias[0].rstrip("."))
        return "no answer: too many aliases"

    def tool_list_versions(self):
        lines = []
        for n, (comment, records, source) in enumerate(self._state["versions"], 1):
            origin = f", rolled back from version {source}" if source else ""
            lines.append(f"version {n}: '{comment}', {len(records)} records{origin}")
        return "\n".join(lines)

    def tool_rollback(self, version):
        versions = self._state["versions"]
        if type(version) is not int or not 1 <= version <= len(versions):
            return f"no rollback: versions 1 to {len(versions)} exist"
        self._state.update(draft=versions[version - 1][1], source=version)
        return f"the draft equals version {version}; it is not live yet"

    def solution(self):
        actions = []
        for step in self._plan.split("\n")[1:-1]:
            name, _, rest = step.strip().partition(" ")
            schema = self._tools[name]["function"]["parameters"]["properties"]
            arguments = dict(zip(schema, [part.strip() for part in rest.split("|")], strict=False))
            for key in schema.keys() & {"number", "version"}:
                arguments[key] = int(arguments[key])
            actions.append("<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>")
        actions.append("<answer>done</answer>")
        return "\n".join(actions)
