"""Functions without arguments, about which even a small model can talk."""


def opening_hours() -> dict[str, str]:
    """Tell when the shop opens and closes today."""
    return {"opens": "08:00", "closes": "18:30"}


def open_orders() -> list[str]:
    """List the orders of the shop that are still open."""
    return ["twelve rolls", "a birthday cake"]
