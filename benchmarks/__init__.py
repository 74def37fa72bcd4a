"""Scripts that time and measure; each prints its table."""
