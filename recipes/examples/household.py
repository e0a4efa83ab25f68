"""Small sums of everyday life: functions of one's own, with type hints and docstrings."""

import datetime as dt
import random
from typing import Literal

GRAMS = {"gram": 1.0, "kilogram": 1000.0, "ounce": 28.349523125, "pound": 453.59237}
LITRES = {"cup": 0.2365882365, "gallon": 3.785411784, "litre": 1.0, "pint": 0.473176473}


def convert_weight(
    amount: float,
    source: Literal["gram", "kilogram", "ounce", "pound"],
    target: Literal["gram", "kilogram", "ounce", "pound"],
) -> dict[str, float | str]:
    """Convert a weight from one unit to another.

    Args:
        amount: weight to convert
        source: unit of the weight
        target: unit wanted
    """
    return {"amount": round(amount * GRAMS[source] / GRAMS[target], 2), "unit": target}


def convert_volume(
    amount: float,
    source: Literal["cup", "gallon", "litre", "pint"],
    target: Literal["cup", "gallon", "litre", "pint"],
) -> dict[str, float | str]:
    """Convert a volume from one unit to another.

    Args:
        amount: volume to convert
        source: unit of the volume
        target: unit wanted
    """
    return {"amount": round(amount * LITRES[source] / LITRES[target], 2), "unit": target}


def split_bill(total: float, people: int, tip_percent: int = 10) -> dict[str, float]:
    """Split a restaurant bill between friends.

    Args:
        total: sum of the bill in euros
        people: number of people who pay
        tip_percent: tip in percent
    """
    if people < 1:
        raise ValueError("at least one person must pay")
    return {"each_pays": round(total * (1 + tip_percent / 100) / people, 2)}


def monthly_payment(loan: int, years: int, interest_percent: float) -> dict[str, float]:
    """Compute the monthly payment of a loan.

    Args:
        loan: sum of the loan in euros
        years: years until it is paid back
        interest_percent: interest in percent a year
    """
    rate, months = interest_percent / 1200, years * 12
    payment = loan / months if not rate else loan * rate / (1 - (1 + rate) ** -months)
    return {"payment": round(payment, 2), "total_paid": round(payment * months, 2)}


def add_days(start_date: dt.date, days: int) -> dict[str, str]:
    """Find the date that lies some days after another date.

    Args:
        start_date: first day
        days: number of days to add
    """
    day = dt.date.fromisoformat(str(start_date)) + dt.timedelta(days=days)
    return {"date": day.isoformat(), "weekday": day.strftime("%A")}


def fuel_cost(distance: int, litres_per_100_km: float, price: float) -> dict[str, float]:
    """Estimate what the fuel of a car trip costs.

    Args:
        distance: length of the trip in kilometres
        litres_per_100_km: fuel the car needs for 100 kilometres
        price: price of a litre in euros
    """
    litres = distance * litres_per_100_km / 100
    return {"litres": round(litres, 1), "cost": round(litres * price, 2)}


def roll_dice(count: int) -> dict[str, int]:
    """Roll some dice and add up the points. Chance decides: no two calls agree.

    Args:
        count: number of dice
    """
    return {"points": sum(random.randint(1, 6) for _ in range(count))}
