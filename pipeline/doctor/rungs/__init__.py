"""One file per rung of the doctor's ladder."""
