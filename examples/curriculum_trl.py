"""TRL's GRPO on a curriculum of tool-use programs: one ticket per group. Only the lines marked with * are new.

pip install spade-gym "trl>=1.16" torch
python examples/curriculum_trl.py --steps 12

The model is tiny and knows nothing, so it is not left to write its calls letter by letter: its vocabulary has a token
for each call that the programs allow, and only these are sampled. With a model that can call tools, leave that out.
"""

from __future__ import annotations

import argparse
import importlib.resources
import importlib.util
import json
import sys
import tempfile

from spade_gym.curriculum import preset  # *
from spade_gym.curriculum.generators import Listed, program_tasks  # *
from spade_gym.curriculum.trl_rollouts import TrlRollouts  # *
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program

LAMPS = ("red", "green", "blue", "white")
GROUP = 8
#: A tool-use program; each difficulty has its own number of instructions and of lamps.
SOURCE = """
import json
import random


class LampsEnv(ToolUseBaseEnv):
    def __init__(self, max_turns=8, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        wanted = random.Random(seed).sample({lamps!r}, {count})
        self._state = {{"lit": []}}
        self._user_messages = [f"Light the {{lamp}} lamp." for lamp in wanted]
        self._message_criteria = [lambda state, lamp=lamp: lamp in state["lit"] for lamp in wanted]
        parameters = {{"type": "object", "properties": {{"lamp": {{"type": "string"}}}}, "required": ["lamp"]}}
        function = {{"name": "light", "description": "Light a lamp.", "parameters": parameters}}
        self._tools = [{{"type": "function", "function": function}}]
        self.wanted = wanted
        return self._user_messages[0], {{}}

    def tool_light(self, lamp):
        self._state["lit"].append(lamp)
        return json.dumps({{"lit": self._state["lit"]}})

    def solution(self):
        calls = [json.dumps({{"name": "light", "arguments": {{"lamp": lamp}}}}) for lamp in self.wanted]
        return "\\n".join([*(f"<tool_call>{{call}}</tool_call>" for call in calls), "<answer>done</answer>"])
"""


def make_pool(folder: str) -> Pool:
    pool = Pool(folder)
    for count, lamps in ((1, 2), (1, 3), (1, 4), (2, 2), (2, 4), (3, 4)):
        facts = {"name": f"Lamps{count}of{lamps}", "setting": "tool_use", "class_name": "LampsEnv"}
        pool.add(Program(SOURCE.format(count=count, lamps=LAMPS[:lamps]), Manifest(**facts, skill="API Orchestration")))
    return pool


def make_model(texts: list[str], calls: list[str]):
    """A tokenizer that is trained on the texts, with a token for each call, and a model of two small layers."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])
    fast.add_tokens(calls)
    # A chat template that can call tools, and that TRL knows how to read calls from.
    templates = importlib.resources.files("trl") / "chat_templates"
    fast.chat_template = (templates / "qwen3_instruct_2507.jinja").read_text(encoding="utf-8")
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=False,
        pad_token_id=fast.pad_token_id, eos_token_id=fast.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config), fast


def tool_call(name: str, arguments: dict[str, object]) -> str:
    """A call as the chat template writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    missing = [name for name in ("torch", "transformers", "trl") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: needs {', '.join(missing)}: pip install 'trl>=1.16' torch")
        sys.exit(0)
    import torch
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        pool = make_pool(folder + "/pool")
        tasks = program_tasks(pool)  # *
        curriculum = preset.make(
            args.preset, generator=Listed(tasks), group_size=GROUP, schedule={"min_records": 6}
        )  # *
        rollouts = TrlRollouts(curriculum, group_size=GROUP, pool=folder + "/pool")  # *

        calls = [tool_call("call_tool", {"name": "light", "arguments": {"lamp": lamp}}) for lamp in LAMPS]
        calls.append(tool_call("answer", {"text": "done"}))
        model, tokenizer = make_model([program.source for program in pool], calls)
        sampled = {*tokenizer.convert_tokens_to_ids(calls), tokenizer.eos_token_id}
        config = GRPOConfig(
            output_dir=folder, max_steps=args.steps, num_generations=GROUP, per_device_train_batch_size=GROUP,
            steps_per_generation=2, learning_rate=2e-3, max_completion_length=1024, max_tool_calling_iterations=6,
            generation_kwargs={"suppress_tokens": [i for i in range(len(tokenizer)) if i not in sampled]},
            use_cpu=True, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True, seed=0,
        )  # fmt: skip
        trainer = GRPOTrainer(model, args=config, processing_class=tokenizer, environment_factory=rollouts)  # *
        trainer.train()
        rollouts.close()  # *
        names = {program.digest: program.manifest.name for program in pool}
    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    print(f"{args.preset}: outcomes {dict(curriculum.receipts)}; mean reward of each batch:", *rewards)
    for record, score in curriculum.ranked():
        wins = record.log.outcomes().wins
        value = "unknown" if score is None else f"{score:.2f}"
        print(f"  {names[record.task.value['program']]}: {len(wins)} plays, won {wins.mean():.0%}, score {value}")


if __name__ == "__main__":
    main()
