"""Reinforcement learning on GSM8K: a config, a data set, a reward function, and `launch`.

    python examples/math/gsm8k_rl.py --config configs/gsm8k_smollm2_cpu.yaml dataset.path=FOLDER/train.jsonl

Copy this file for a task of your own: name its data set, its columns and its reward function. The reward is
named by import path, because it runs in processes of its own:

    def my_reward(prompt: str, completion: str, answer: str, row: Mapping) -> float: ...
"""

import sys

from configs.loading.arguments import load_arguments
from configs.schema import Config
from pipeline.errors import one_sentence
from pipeline.run.launch import launch

REWARD = "rollout.rewards.gsm8k:gsm8k_reward"


def gsm8k(config: Config) -> Config:
    """GSM8K's columns and reward; the config file says where the data set lies."""
    config.dataset.prompt_column = "question"
    config.dataset.answer_column = "answer"
    config.reward.function = REWARD
    return config


def main() -> None:
    with one_sentence():
        config = load_arguments(sys.argv[1:])
        launch(gsm8k(config))


if __name__ == "__main__":
    main()
