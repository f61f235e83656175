import json
import random
from types import SimpleNamespace

PLACES = {"Docks": (0, 0), "Mill": (6, 2), "Depot": (3, 5), "Quarry": (9, 7), "Market": (2, 9), "Airfield": (12, 3)}
KILOMETRES_PER_PERCENT = 5


def kilometres(here, there):
    (x, y), (u, v) = PLACES[here], PLACES[there]
    return 5 * (abs(x - u) + abs(y - v))


def schema(name, description, **kinds):
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties, "required": list(kinds)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class RosterlineDispatchEnv(ToolUseBaseEnv):
    """Vehicles, drivers and jobs are separate services; a dispatch has to satisfy the rules of all three."""

    TOOLS = (
        schema("list_vehicles", "All vehicles: capacity in kg, fuel in percent, place and state."),
        schema("list_drivers", "All drivers: licences and minutes left today."),
        schema("get_job", "Pickup, drop-off, load in kg, needed licence and status.", job_id="string"),
        schema(
            "distance", "Kilometres between two places; a kilometre takes a minute.", origin="string", target="string"
        ),
        schema("refuel", "Fill the tank of an idle vehicle.", vehicle_id="string"),
        schema(
            "split_job", "Take a first load (kg) out of a waiting job; returns both.", job_id="string", load="integer"
        ),
        schema("assign", "Join job, vehicle and driver.", job_id="string", vehicle_id="string", driver_id="string"),
        schema("unassign", "Free vehicle and driver of an assigned job.", job_id="string"),
        schema("start_job", "Send an assigned job on its way.", job_id="string"),
        schema("complete_job", "Report that a started job is done.", job_id="string"),
        schema("send_to_workshop", "Take an idle vehicle out of service.", vehicle_id="string", note="string"),
    )

    def __init__(self, max_turns=40, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = self._current_msg = 0
        self._call_history = []
        self._expected_answer = "done"
        self._tools = list(self.TOOLS)
        depots = rng.sample(sorted(PLACES), 5)
        small, medium, _, wide, _ = sizes = [rng.randint(6, 9) * 100 + step * 1000 for step in range(5)]
        labels = [f"V{n}" for n in rng.sample(range(10, 99), 5)]
        load = small + rng.randint(1, medium - small)
        heavy = wide + rng.randint(3, 9) * 100
        fleet = {
            label: SimpleNamespace(capacity=size, fuel=rng.randint(60, 95), place=place, state="idle", job=None)
            for label, size, place in zip(labels, sizes, depots, strict=True)
        }
        fleet[labels[1]].fuel = rng.randint(1, 2)
        fleet[labels[4]].state = "workshop"
        origin, target = rng.sample(sorted(set(PLACES) - {depots[1], depots[2]}), 2)
        licence = rng.choice(["van", "truck"])
        other = "truck" if licence == "van" else "van"
        needed = max(kilometres(fleet[label].place, origin) for label in labels[1:3]) + kilometres(origin, target)
        crew = {}
        for name, licences, minutes in (
            ("Aldo", [licence], needed + rng.randint(40, 80)),
            ("Berit", [other], needed + rng.randint(5, 20)),
            ("Cass", [licence, other], needed + rng.randint(10, 30)),
            ("Dunja", [licence], rng.randint(5, 20)),
            ("Edda", [other, "hazmat"], rng.randint(400, 480)),
        ):
            crew[name] = SimpleNamespace(licences=licences, minutes=minutes, job=None)
        far, near = rng.sample(sorted(PLACES), 2)
        one, two = (f"J{n}" for n in rng.sample(range(100, 400), 2))
        jobs = {
            one: SimpleNamespace(pickup=origin, drop=target, load=load, licence=licence, status="waiting"),
            two: SimpleNamespace(pickup=far, drop=near, load=heavy, licence="hazmat", status="waiting"),
        }
        self._state = SimpleNamespace(fleet=fleet, crew=crew, jobs=jobs)
        note = rng.choice(["flat tyre", "broken lamp", "oil leak"])
        self._user_messages = [
            f"Assign job {one}: take the smallest vehicle in service that can carry it, and of the drivers who may "
            "and can do it the one with the fewest minutes left.",
            f"That vehicle turns out to have a defect: send it to the workshop with the note '{note}'. The same "
            f"driver does {one} with the next larger vehicle.",
            f"Job {two} is too heavy for any vehicle in service. Split it so that the first part fills the largest "
            "vehicle in service completely, and send that part on its way.",
            f"{one} has been driven and delivered meanwhile. Bring its record up to date.",
        ]
        self._cast = SimpleNamespace(
            one=one, two=two, first=labels[1], second=labels[2], carrier=labels[3], load=wide, note=note
        )
        self._message_criteria = [self.is_assigned, self.is_replaced, self.is_split, self.is_completed]
        return self._user_messages[0], {}

    def is_assigned(self, state, vehicle=None):
        job, driver = self._cast.one, state.crew["Cass"]
        return state.fleet[vehicle or self._cast.first].job == job == driver.job

    def is_replaced(self, state):
        defect = state.fleet[self._cast.first]
        noted = defect.state == "workshop" and getattr(defect, "note", "") == self._cast.note
        return noted and self.is_assigned(state, self._cast.second)

    def is_split(self, state):
        carried = state.fleet[self._cast.carrier].job
        if carried is None or not carried.startswith(self._cast.two):
            return False
        part = state.jobs[carried]
        return part.load == self._cast.load and part.status == "started"

    def is_completed(self, state):
        return state.jobs[self._cast.one].status == "completed"

    def _pick(self, register, key):
        return getattr(self._state, register).get(key) if isinstance(key, str) else None

    def _staff(self, job_id):
        """The vehicle and the driver of a job."""
        everything = [*self._state.fleet.values(), *self._state.crew.values()]
        return [thing for thing in everything if thing.job == job_id]

    def _trip(self, job, vehicle):
        return kilometres(vehicle.place, job.pickup) + kilometres(job.pickup, job.drop)

    @staticmethod
    def _reply(outcome, **details):
        return " | ".join([outcome, *(f"{key} {value}" for key, value in details.items())])

    def tool_list_vehicles(self):
        return "\n".join(
            f"{label}: {v.capacity} kg, fuel {v.fuel}%, at {v.place}, {v.state}"
            for label, v in self._state.fleet.items()
        )

    def tool_list_drivers(self):
        return "\n".join(
            self._reply(name, licences="+".join(d.licences), minutes=d.minutes, job=d.job or "none")
            for name, d in self._state.crew.items()
        )

    def tool_get_job(self, job_id):
        job = self._pick("jobs", job_id)
        return json.dumps(vars(job)) if job else self._reply("rejected", reason="unknown job")

    def tool_distance(self, origin, target):
        if origin not in list(PLACES) or target not in list(PLACES):
            return self._reply("rejected", places=", ".join(PLACES))
        return f"{kilometres(origin, target)} km"

    def tool_refuel(self, vehicle_id):
        vehicle = self._pick("fleet", vehicle_id)
        if not vehicle or vehicle.state != "idle":
            return self._reply("rejected", reason="no idle vehicle of this name")
        vehicle.fuel = 100
        return self._reply("refuelled", vehicle=vehicle_id)

    def tool_split_job(self, job_id, load):
        job = self._pick("jobs", job_id)
        if not job or job.status != "waiting" or len(self._state.jobs) > 30:
            return self._reply("rejected", reason="no waiting job of this name")
        if type(load) is not int or not 0 < load < job.load:
            return self._reply("rejected", reason=f"the first load must be 1 to {job.load - 1} kg")
        part = SimpleNamespace(**vars(job))
        part.load = load
        job.load -= load
        part_id = f"{job_id}-{sum(key.startswith(job_id) for key in self._state.jobs)}"
        self._state.jobs[part_id] = part
        return self._reply("split", first=f"{part_id} with {load} kg", rest=f"{job_id} with {job.load} kg")

    def tool_assign(self, job_id, vehicle_id, driver_id):
        job, vehicle, driver = (
            self._pick("jobs", job_id),
            self._pick("fleet", vehicle_id),
            self._pick("crew", driver_id),
        )
        if not (job and vehicle and driver):
            return self._reply("rejected", reason="unknown job, vehicle or driver")
        trip = self._trip(job, vehicle)
        rules = {
            "the job is not waiting": job.status == "waiting",
            "the vehicle is not idle": vehicle.state == "idle",
            "the driver has a job": driver.job is None,
            "overload": job.load <= vehicle.capacity,
            "licence": job.licence in driver.licences,
            f"hours: the trip takes {trip} minutes": trip <= driver.minutes,
            f"fuel: the trip has {trip} km, one percent lasts {KILOMETRES_PER_PERCENT} km": trip
            <= vehicle.fuel * KILOMETRES_PER_PERCENT,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            return self._reply("rejected", reason=broken[0])
        job.status = vehicle.state = "assigned"
        vehicle.job = driver.job = job_id
        return self._reply("assigned", job=job_id, vehicle=vehicle_id, driver=driver_id)

    def tool_unassign(self, job_id):
        job = self._pick("jobs", job_id)
        if not job or job.status != "assigned":
            return self._reply("rejected", reason="no assigned job of this name")
        for thing in self._staff(job_id):
            thing.job = None
            if hasattr(thing, "state"):
                thing.state = "idle"
        job.status = "waiting"
        return self._reply("waiting", job=job_id)

    def tool_start_job(self, job_id):
        job = self._pick("jobs", job_id)
        if not job or job.status != "assigned":
            return self._reply("rejected", reason="no assigned job of this name")
        job.status = "started"
        return self._reply("started", job=job_id)

    def tool_complete_job(self, job_id):
        job = self._pick("jobs", job_id)
        if not job or job.status != "started":
            return self._reply("rejected", reason="no started job of this name")
        vehicle, driver = self._staff(job_id)
        trip = self._trip(job, vehicle)
        driver.minutes, driver.job = driver.minutes - trip, None
        vehicle.fuel -= trip // KILOMETRES_PER_PERCENT
        vehicle.place, vehicle.state, vehicle.job = job.drop, "idle", None
        job.status = "completed"
        return self._reply("completed", job=job_id)

    def tool_send_to_workshop(self, vehicle_id, note):
        vehicle = self._pick("fleet", vehicle_id)
        if not vehicle or vehicle.state != "idle":
            return self._reply("rejected", reason="no idle vehicle of this name")
        vehicle.state, vehicle.note = "workshop", str(note)[:80]
        return self._reply("workshop", vehicle=vehicle_id)

    def solution(self):
        cast = self._cast
        part = f"{cast.two}-1"
        flow = f"""
            list_vehicles; list_drivers; get_job {cast.one}; refuel {cast.first}; assign {cast.one} {cast.first} Cass;
            unassign {cast.one}; send_to_workshop {cast.first} {cast.note.replace(" ", "_")};
            assign {cast.one} {cast.second} Cass; get_job {cast.two}; split_job {cast.two} {cast.load};
            assign {part} {cast.carrier} Edda; start_job {part}; start_job {cast.one}; complete_job {cast.one}
        """
        shapes = {tool["function"]["name"]: tool["function"]["parameters"]["properties"] for tool in self.TOOLS}
        lines = []
        for words in map(str.split, flow.split(";")):
            arguments = dict(zip(shapes[words[0]], (word.replace("_", " ") for word in words[1:]), strict=True))
            if "load" in arguments:
                arguments["load"] = int(arguments["load"])
            lines.append(f"<tool_call>{json.dumps({'name': words[0], 'arguments': arguments})}</tool_call>")
        return "\n".join([*lines, "<answer>done</answer>"])
