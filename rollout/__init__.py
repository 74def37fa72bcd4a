"""The sampler: a Ray actor around a vLLM engine, its data, rewards and weights."""
