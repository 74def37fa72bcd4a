"""Seconds in words."""


def duration(seconds: float) -> str:
    """Seconds as `48 s`, `12 min 5 s` or `3 h 27 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
