"""The command `proxrl`. Each command is a function in `pipeline/commands/`; heavy imports wait until it runs."""

import typer

from pipeline.commands.ablate import ablate
from pipeline.commands.audit import audit
from pipeline.commands.config import config
from pipeline.commands.doctor import doctor
from pipeline.commands.engines import app as engines
from pipeline.commands.eval import evaluate
from pipeline.commands.parity import parity
from pipeline.commands.replay import replay
from pipeline.commands.report import report
from pipeline.commands.status import status
from pipeline.commands.train import train

app = typer.Typer(
    name="proxrl",
    help="Asynchronous decoupled PPO and GSPO whose sampler and trainer agree.",
    epilog="Example: proxrl train --config configs/gsm8k_smollm2_cpu.yaml",
    no_args_is_help=True,
    rich_markup_mode=None,  # boxes would push the help off a screen
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    (train, "train", "Launch a run, or resume the one in its folder."),
    (doctor, "doctor", "Prove that a job's sampler and trainer agree, rung by rung."),
    (status, "status", "Show how runs stand: step, rewards, speed, time left, alarms."),
    (report, "report", "Draw runs side by side on one HTML page."),
    (evaluate, "eval", "Evaluate held-out problems: pass@k of a model or a run."),
    (ablate, "ablate", "Run a grid over keys and seeds; compare the variants."),
    (parity, "parity", "Study vLLM's V0 and V1 engines, run for run."),
    (audit, "audit", "Prove that no prompt was lost or trained on twice."),
    (replay, "replay", "Train once on the batch that a run stopped at."),
    (config, "config", "Print the resolved config and where its values came from."),
)
for function, name, summary in COMMANDS:
    app.command(name, short_help=summary)(function)
app.add_typer(engines, name="engines", short_help="Environments of other engines: vLLM 0.8.5 (V0), 0.18.1.")


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
