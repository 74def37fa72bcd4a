"""`proxrl eval`: how good a policy is on held-out problems, with intervals."""
