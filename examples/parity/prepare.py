"""Model and problems of the CPU study: those of the quickstart for seed 1, made where they are missing.

python -m examples.parity.prepare
"""

from examples.quickstart.quickstart import prepare
from examples.quickstart.warm_start import WarmStart

SEED = 1

if __name__ == "__main__":
    prepare(SEED, WarmStart())
