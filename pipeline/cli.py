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
for command in (train, doctor, status, report, ablate, parity, audit, replay, config):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(engines, name="engines")


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
