"""vLLM 0.8.5, V0 engine, in an environment of its own."""
