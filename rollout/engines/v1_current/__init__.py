"""The vLLM that is installed beside proxrl, V1 engine."""
