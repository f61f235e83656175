import functools
import inspect
import json
import random


class Refusal(Exception):
    """Why a file operation did not happen; becomes the answer of the tool."""


def answering(operation):
    """Checks that all arguments are short texts, and writes results and refusals as JSON."""

    @functools.wraps(operation)
    def run(self, **texts):
        unfit = [key for key, value in texts.items() if not isinstance(value, str) or len(value) > 200]
        if unfit:
            return json.dumps({"error": "bad_argument", "arguments": sorted(unfit)})
        try:
            return json.dumps(operation(self, **texts))
        except Refusal as refusal:
            return json.dumps({"error": str(refusal)})

    return run


class TextFile:
    def __init__(self, content, *tags, locked=False):
        self.content = content
        self.tags = set(tags)
        self.locked = locked


class Tree:
    """All that is stored: files by path, folders, trash, and a limit on the number of characters."""

    def __init__(self, quota, *folders):
        self.quota = quota
        self.folders = {"/", *folders}
        self.files = {}
        self.trash = {}

    def open(self, path, writing=False):
        if path not in self.files:
            raise Refusal("not_found")
        if writing and self.files[path].locked:
            raise Refusal("locked")
        return self.files[path]

    def claim(self, path):
        if path in self.files or path in self.folders:
            raise Refusal("exists")
        if (path.rpartition("/")[0] or "/") not in self.folders or path.endswith("/"):
            raise Refusal("no_parent")

    def reserve(self, characters):
        if characters > self.quota - sum(len(file.content) for file in self.files.values()):
            raise Refusal("quota")


class LarderFilesEnv(ToolUseBaseEnv):
    """A file store with folders, tags, locks, a trash and a quota."""

    def __init__(self, max_turns=36, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._call_history, self._current_msg = 0, [], 0
        self._expected_answer = "done"
        months = rng.sample(["january", "march", "april", "june", "august", "october"], 5)
        team = rng.choice(["north", "south", "export"])
        drafts = sorted(rng.sample(months[1:], 2))
        tree = self._state = Tree(600, "/reports", "/notes")
        for month in months:
            tag = "draft" if month in drafts else "final"
            text = f"{team} sales {month}: {rng.randint(100, 999)} units"
            tree.files[f"/reports/{month}.txt"] = TextFile(text, tag, locked=month == months[0])
        tree.files["/notes/todo.txt"] = TextFile("call the printer\n")
        self._line = f"order {rng.randint(3, 30)} boxes of labels"
        self._archive = f"/reports/{team}-archive"
        self._stamp = f"reviewed by desk {rng.randint(1, 9)}"
        self._sealed = f"/reports/{months[0]}.txt"
        self._moves = {f"/reports/{month}.txt": f"{self._archive}/{month}.txt" for month in drafts}
        self._user_messages = [
            f"Add the line '{self._line}' to the end of /notes/todo.txt. Keep what is there.",
            f"Move every report that is tagged 'draft' into the folder {self._archive}. Create the folder if needed.",
            f"Replace the content of {self._sealed} by '{self._stamp}', and make sure that it is locked afterwards.",
            f"Tag the files in {self._archive} with 'old' and take the tag 'draft' away from them.",
        ]
        self._message_criteria = [self._line_added, self._drafts_moved, self._report_stamped, self._archive_tagged]
        self._tools = [
            self._described(name.removeprefix("tool_"), method)
            for name, method in vars(type(self)).items()
            if name.startswith("tool_")
        ]
        return self._user_messages[0], {}

    @staticmethod
    def _described(name, method):
        keys = [key for key in inspect.signature(method).parameters if key != "self"]
        schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys}
        return {"type": "function", "function": {"name": name, "description": method.__doc__, "parameters": schema}}

    def _line_added(self, tree):
        todo = tree.files.get("/notes/todo.txt", TextFile(""))
        return [text.strip() for text in todo.content.splitlines() if text.strip()] == ["call the printer", self._line]

    def _drafts_moved(self, tree):
        return tree.files.keys() >= set(self._moves.values()) and tree.files.keys().isdisjoint(self._moves)

    def _report_stamped(self, tree):
        report = tree.files.get(self._sealed)
        return report is not None and report.locked and report.content == self._stamp

    def _archive_tagged(self, tree):
        tags = [tree.files[path].tags if path in tree.files else set() for path in self._moves.values()]
        return all("old" in found and "draft" not in found for found in tags)

    @answering
    def tool_list_folder(self, path):
        """Paths of the files and folders directly in a folder."""
        if path not in self._state.folders:
            raise Refusal("not_found")
        inside = [*self._state.files, *self._state.folders - {"/"}]
        return sorted(entry for entry in inside if (entry.rpartition("/")[0] or "/") == path)

    @answering
    def tool_read_file(self, path):
        """Content, tags and lock of a file."""
        file = self._state.open(path)
        return {"content": file.content, "tags": sorted(file.tags), "locked": file.locked}

    @answering
    def tool_write_file(self, path, content):
        """Create a file or replace its content."""
        if path not in self._state.files:
            self._state.claim(path)
            self._state.reserve(len(content))
            self._state.files[path] = TextFile(content)
            return {"ok": "created"}
        file = self._state.open(path, writing=True)
        self._state.reserve(len(content) - len(file.content))
        file.content = content
        return {"ok": "replaced"}

    @answering
    def tool_append_file(self, path, text):
        """Add text to the end of a file."""
        file = self._state.open(path, writing=True)
        self._state.reserve(len(text))
        file.content += text
        return {"ok": "appended"}

    @answering
    def tool_make_folder(self, path):
        """Create a folder; the folder above it must exist."""
        if len(self._state.folders) >= 40:
            raise Refusal("too_many_folders")
        self._state.claim(path)
        self._state.folders.add(path)
        return {"ok": "created"}

    @answering
    def tool_move(self, source, target):
        """Rename or move a file; target is its new full path."""
        self._state.open(source, writing=True)
        self._state.claim(target)
        self._state.files[target] = self._state.files.pop(source)
        return {"ok": "moved"}

    @answering
    def tool_delete(self, path):
        """Put a file into the trash."""
        self._state.open(path, writing=True)
        self._state.trash[path] = self._state.files.pop(path)
        return {"ok": "deleted"}

    @answering
    def tool_restore(self, path):
        """Bring a file back from the trash to the path where it was."""
        if path not in self._state.trash:
            raise Refusal("not_found")
        self._state.claim(path)
        self._state.reserve(len(self._state.trash[path].content))
        self._state.files[path] = self._state.trash.pop(path)
        return {"ok": "restored"}

    @answering
    def tool_add_tag(self, path, tag):
        """Add a tag to a file."""
        if len(self._state.open(path).tags) >= 20:
            raise Refusal("too_many_tags")
        self._state.files[path].tags.add(tag)
        return {"tags": sorted(self._state.files[path].tags)}

    @answering
    def tool_remove_tag(self, path, tag):
        """Take a tag away from a file."""
        self._state.open(path).tags.discard(tag)
        return {"tags": sorted(self._state.files[path].tags)}

    @answering
    def tool_find(self, tag):
        """Paths of the files that carry a tag."""
        return sorted(path for path, file in self._state.files.items() if tag in file.tags)

    @answering
    def tool_lock(self, path):
        """Protect a file against changes of its content and path."""
        self._state.open(path).locked = True
        return {"ok": "locked"}

    @answering
    def tool_unlock(self, path):
        """Remove the protection."""
        self._state.open(path).locked = False
        return {"ok": "unlocked"}

    def solution(self):
        script = []

        def do(name, **arguments):
            script.append("<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>")

        do("append_file", path="/notes/todo.txt", text=self._line + "\n")
        do("find", tag="draft")
        do("make_folder", path=self._archive)
        for source, target in self._moves.items():
            do("move", source=source, target=target)
        do("unlock", path=self._sealed)
        do("write_file", path=self._sealed, content=self._stamp)
        do("lock", path=self._sealed)
        for target in self._moves.values():
            do("add_tag", path=target, tag="old")
            do("remove_tag", path=target, tag="draft")
        return "\n".join(script) + "\n<answer>done</answer>"
