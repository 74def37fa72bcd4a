"""One file per family of metrics; `catalogue` collects them."""
