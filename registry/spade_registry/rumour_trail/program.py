import random

FOLK = ("Ada", "Ben", "Cleo", "Dirk", "Elsa", "Finn", "Gus", "Hope", "Ivo", "June")
TALES = ("fox", "ghost")


class RumourTrailEnv:
    """Two rumours run along one-way gossip lines; find out from arrival times who began each."""

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        plan = None
        while plan is None:
            ring = rng.sample(FOLK, len(FOLK))
            self.tells = {person: {ring[i - 1]} for i, person in enumerate(ring)}
            for teller in rng.sample(FOLK, 6):
                self.tells[teller].add(rng.choice([p for p in FOLK if p != teller]))
            self.hours = {person: self._spread(person) for person in FOLK}
            self.began = dict(zip(TALES, rng.sample(FOLK, 2), strict=True))
            plan = self._interviews()
        self.plan = plan
        self.accused = {}
        self.turn = 0
        map_lines = "\n".join(f"  {person} tells {' and '.join(sorted(self.tells[person]))}" for person in FOLK)
        return (
            "Two tales, one of a fox and one of a ghost, were each made up by one villager, who knew it at hour 0. "
            f"Whoever hears a tale passes it on one hour later, but only along these lines:\n{map_lines}\n"
            "\\boxed{interview Ada} says when Ada heard each tale (whole hours; the inventors lie and admit nothing). "
            "\\boxed{accuse fox Ada} names the inventor of a tale, once for each tale, worth one half. You have "
            f"{self.max_turns} turns for everything."
        ), {}

    def _spread(self, origin):
        hour, wave, known = 0, {origin}, {}
        while wave:
            known |= dict.fromkeys(wave, hour)
            wave = {friend for person in wave for friend in self.tells[person]} - known.keys()
            hour += 1
        return known

    def _statement(self, person):
        heard = [self.hours[self.began[tale]][person] for tale in TALES]
        return tuple(hour or None for hour in heard)

    def _interviews(self):
        """Greedy questioning; None if the turns do not suffice to be sure of both inventors."""
        suspects = {tale: list(FOLK) for tale in TALES}
        asked = []
        while any(len(names) > 1 for names in suspects.values()):
            if len(asked) == self.max_turns - len(TALES):
                return None
            person = min((p for p in FOLK if p not in asked), key=lambda p: (self._confusion(p, suspects), p))
            asked.append(person)
            for tale, names in suspects.items():
                truth = self.hours[self.began[tale]][person]
                suspects[tale] = [name for name in names if self.hours[name][person] == truth]
        return asked

    def _confusion(self, person, suspects):
        groups = [[self.hours[name][person] for name in names] for names in suspects.values()]
        return sum(hours.count(hour) for hours in groups for hour in hours)

    def step(self, action):
        done = len(self.accused) == len(TALES)
        if done or self.turn >= self.max_turns:
            return "The village is asleep.", 0.0, done, not done, {}
        self.turn += 1
        words = action.replace("\\boxed{", " ").replace("}", " ").split()
        reward, reply = 0.0, "The village does not understand."
        if len(words) == 2 and words[0] == "interview" and words[1] in FOLK:
            times = zip(TALES, self._statement(words[1]), strict=True)
            reply = " ".join(
                f"{words[1]} heard of the {tale} at hour {hour}." if hour else f"{words[1]} says nothing of the {tale}."
                for tale, hour in times
            )
        elif len(words) == 3 and words[0] == "accuse" and words[1] in TALES and words[2] in FOLK:
            if words[1] in self.accused:
                reply = f"Somebody has been accused of the {words[1]} tale before."
            else:
                self.accused[words[1]] = words[2]
                reward = 0.5 * (self.began[words[1]] == words[2])
                reply = f"{words[2]} {'confesses' if reward else 'is innocent'}."
        done = len(self.accused) == len(TALES)
        return reply, reward, done, not done and self.turn >= self.max_turns, {}

    def solution(self):
        asked = [f"interview {person}" for person in self.plan]
        return "\n".join(asked + [f"accuse {tale} {person}" for tale, person in self.began.items()])
