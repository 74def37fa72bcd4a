"""What a run leaves on disk and what a resume reads: folder and lock, checkpoints, ledger, audit, trajectories."""
