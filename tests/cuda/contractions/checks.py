"""What a check says and counts."""


def error_of(got, want):
    """||got - want|| / ||want||; NaN does not pass."""
    got, want = got.double(), want.double()
    return ((got - want).norm() / want.norm().clamp_min(1e-30)).item()


def report(ok, text):
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    report.failures += not ok


report.failures = 0
