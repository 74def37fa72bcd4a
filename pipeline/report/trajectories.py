"""What a page shows of a run's trajectories: histograms over tokens, and completions to read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.report.run_data import RunData
from pipeline.report.samples import COMPLETIONS_A_STEP, STEPS_A_RUN, chosen, sample, tokens_shown
from pipeline.report.token_histograms import TokenHistograms, shares, version_bins
from pipeline.report.token_text import tokenizer_of
from pipeline.report.trajectory_files import BYTES_A_PAGE, affordable, evenly, read_trajectories, trajectory_files

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VERSION_BINS = 60


class TrajectoryPages:
    """Reads the runs of one page; a tokenizer that several of them share is loaded once."""

    def __init__(self, num_runs: int) -> None:
        self._num_runs = num_runs
        self._tokenizers: dict[Any, tuple[PreTrainedTokenizerBase | None, str]] = {}

    def read(self, run: RunData) -> tuple[dict[str, Any], dict[str, Any]]:
        """Histograms and samples of one run, from one reading of its files.

        Raises:
            ValueError: a file that holds no trajectories.
        """
        files = trajectory_files(run.folder)
        read = affordable(files, BYTES_A_PAGE // self._num_runs)
        shown = set(evenly(read, STEPS_A_RUN))
        counts, picked = TokenHistograms(), list[dict[str, Any]]()
        for file in read:
            rows = _counted(file, counts)
            if file in shown:
                picked += chosen(rows, COMPLETIONS_A_STEP)
        tokenizer, reason = self._tokenizer(run) if picked else (None, "")
        max_tokens = tokens_shown(self._num_runs * STEPS_A_RUN * COMPLETIONS_A_STEP)
        completions = [sample(t, tokenizer, max_tokens) for t in picked]
        return _histograms(counts, len(files)), {"completions": completions, "no_tokenizer": reason}

    def _tokenizer(self, run: RunData) -> "tuple[PreTrainedTokenizerBase | None, str]":
        path = run.setting("model.path")
        if path not in self._tokenizers:
            self._tokenizers[path] = tokenizer_of(run)
        return self._tokenizers[path]


def _counted(file: Path, counts: TokenHistograms) -> list[dict[str, Any]]:
    rows = read_trajectories(file)
    try:
        counts.add(rows)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} holds no trajectories ({error!r}); delete it or copy it again") from None
    return rows


def _histograms(counts: TokenHistograms, num_files: int) -> dict[str, Any]:
    return {
        "num_files": num_files,
        "num_read": counts.num_files,
        "lags": [{"lag": lag, "share": share} for lag, share in shares(counts.lags).items()],
        "versions": [
            {"first": b.first, "last": b.last, "count": b.count} for b in version_bins(counts.versions, VERSION_BINS)
        ],
        "versions_a_completion": [
            {"versions": n, "share": share} for n, share in shares(counts.versions_a_completion).items()
        ],
    }
