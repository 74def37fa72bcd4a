"""vLLM 0.18.1, V1 engine, in an environment of its own."""
