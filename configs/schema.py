"""The whole configuration of a run. Every field has a one-line doc in its `metadata`."""

from dataclasses import dataclass, field, replace
from typing import Literal

from omegaconf import MISSING

from configs.actor_schema import ActorConfig
from configs.dataset_files import LOCAL_SPLIT, is_local_file
from configs.fields import doc
from configs.rollout_schema import RolloutConfig


@dataclass
class RunConfig:
    name: str = doc("run", "Name of the run; the default folder is runs/NAME.")
    dir: str | None = doc(None, "Folder of the run; null means runs/NAME.")
    seed: int = doc(1, "Seed of data order, sampling and training.")


@dataclass
class SchedulerConfig:
    type: Literal["local", "ray"] = doc(
        "local", "local starts a Ray of its own on this machine; ray joins the cluster at `address`."
    )
    device: Literal["auto", "gpu", "cpu"] = doc(
        "auto", "auto takes GPUs if there are any; gpu never falls back; cpu computes there even in bfloat16."
    )
    address: str | None = doc(
        None,
        "HOST:PORT of the Ray cluster to join when type is ray; null: this machine's, or that of RAY_ADDRESS.",
    )


@dataclass
class ModelConfig:
    path: str = doc(MISSING, "Folder or hub name of a Hugging Face causal language model.")
    dtype: Literal["float32", "bfloat16"] = doc(
        "bfloat16", "Type of the body's weights in sampler and trainer; the lm_head computes in fp32 in both."
    )
    trust_remote_code: bool = doc(False, "Run Python code that comes with the model's folder.")


@dataclass
class DatasetConfig:
    path: str = doc("openai/gsm8k", "Hub name, folder, or local .jsonl/.json/.parquet file.")
    name: str | None = doc("main", "Configuration of a hub data set; ignored names are refused for local files.")
    split: str = doc("train", "Split of a hub data set or folder; a local file has only 'train'.")
    prompt_column: str = doc(
        "question", "Column that holds the prompt (a string, or a list of chat messages); a.b is b in a."
    )
    answer_column: str = doc(
        "answer", "Column that holds the reference answer given to the reward function; a.b is b in a."
    )
    id_column: str | None = doc(None, "Column with a unique id; null means the row number.")
    system_prompt: str | None = doc(None, "System message put before each prompt (chat templates only).")
    prompt_suffix: str = doc("", "Text appended to each prompt, for instance how to mark the answer.")
    chat_template: Literal["auto", "never"] = doc(
        "auto", "auto uses the tokenizer's chat template where it has one; never tokenizes the plain text."
    )
    max_prompt_tokens: int = doc(512, "Longer prompts are dropped and counted when the data set is read.")
    limit: int | None = doc(None, "Use the first rows only; null means all.")


@dataclass
class RewardConfig:
    function: str = doc("rollout.rewards.gsm8k:gsm8k_reward", "The reward, as module:function or file.py:function.")
    num_workers: int = doc(1, "Processes that compute rewards beside each rollout worker's event loop.")
    timeout_s: float = doc(10.0, "Seconds after which one reward is ended and counted as a failure.")
    max_failure_fraction: float = doc(0.2, "Stop the run when more of the last 200 rewards failed than this.")


@dataclass
class TrainConfig:
    total_steps: int = doc(MISSING, "Training steps (versions) of the whole run.")
    batch_size: int = doc(MISSING, "Groups per step.")


@dataclass
class EvalConfig:
    every: int = doc(0, "Steps between evaluations; 0 evaluates only before the first and after the last step.")
    path: str | None = doc(None, "Held-out data set; null means dataset.path.")
    split: str = doc("test", "Split of the held-out data set; a local file has only 'train'.")
    num_samples: int = doc(256, "Held-out problems used, the first ones; 0 switches evaluation off.")
    temperature: float = doc(0.0, "0 is greedy.")
    max_new_tokens: int | None = doc(None, "Length limit in evaluation; null means rollout.sampling.max_new_tokens.")


@dataclass
class ConsistencyConfig:
    every: int = doc(10, "Steps between parity samples (fresh completions that both halves score); 0 takes none.")
    num_samples: int = doc(2, "Completions of each rollout worker in one parity sample.")
    limit: float | None = doc(None, "Largest mean |δ| at lag 0; null means the limit for model.dtype.")
    action: Literal["warn", "stop"] = doc("warn", "What happens above the limit: a note, or the end of the run.")


@dataclass
class CheckpointConfig:
    every: int = doc(
        0, "Steps between checkpoints; 0 writes one at the end only. A run that fails between two steps writes one too."
    )
    keep: int = doc(2, "Newest checkpoints kept.")


@dataclass
class TrackerConfig:
    tensorboard: bool = doc(False, "Write TensorBoard event files to RUN/tensorboard.")
    wandb_project: str | None = doc(None, "Weights & Biases project; needs the wandb package.")
    wandb_offline: bool = doc(True, "Keep Weights & Biases files in the run folder instead of sending them.")
    trackio_project: str | None = doc(None, "trackio project, kept on this machine; needs the trackio package.")


@dataclass
class Config:
    """A run, as `config.yaml` in its folder records it."""

    run: RunConfig = field(default_factory=RunConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    consistency: ConsistencyConfig = field(default_factory=ConsistencyConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    trackers: TrackerConfig = field(default_factory=TrackerConfig)

    @property
    def eval_dataset(self) -> DatasetConfig:
        """The held-out data set: the training set's columns and template, eval's path, split and limit."""
        path = self.eval.path or self.dataset.path
        split = LOCAL_SPLIT if is_local_file(path) else self.eval.split
        return replace(self.dataset, path=path, split=split, limit=self.eval.num_samples)
