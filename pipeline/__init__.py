"""The run: what samples, scores, trains, publishes and records, and the commands around it."""
