# Build one of two images: `docker build --target cpu -t proxrl:cpu .` and `docker build --target gpu -t proxrl:gpu .`
# Run the CPU image with `--ipc=host`, the GPU image with `--gpus all --ipc=host`: weights travel through shared memory.

FROM python:3.11-slim-bookworm AS cpu
SHELL ["/bin/bash", "-c"]
# g++ compiles DeepSpeed's communication op on first use.
RUN apt-get update && apt-get install -y --no-install-recommends g++ git make && rm -rf /var/lib/apt/lists/*
WORKDIR /proxrl
# Only these files affect the environment, so code changes don't trigger a reinstall.
COPY pyproject.toml README.md LICENSE ./
COPY scripts/setup_env.py scripts/constraints-cpu.txt scripts/
RUN mkdir pipeline actor rollout configs && touch {pipeline,actor,rollout,configs}/__init__.py \
    && python3 scripts/setup_env.py && rm -rf /root/.cache
COPY . .
ENV PATH=/proxrl/.venv/bin:$PATH DS_ACCELERATOR=cpu
ENTRYPOINT ["proxrl"]
CMD ["--help"]

# The devel image has nvcc, which DeepSpeed needs to compile its CUDA ops.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04 AS gpu
SHELL ["/bin/bash", "-c"]
RUN apt-get update && apt-get install -y --no-install-recommends g++ git python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /proxrl
COPY pyproject.toml README.md LICENSE ./
RUN mkdir pipeline actor rollout configs && touch {pipeline,actor,rollout,configs}/__init__.py \
    && python3 -m venv .venv \
    && .venv/bin/pip install --no-cache-dir --editable ".[gpu]" \
    && .venv/bin/pip uninstall --yes torchvision torchaudio torchcodec
COPY . .
ENV PATH=/proxrl/.venv/bin:$PATH
ENTRYPOINT ["proxrl"]
CMD ["--help"]
