"""Texts to embed: two of them are alike."""

from __future__ import annotations

TEXTS = ["rent a boat", "sell a car", "a boat to rent"]
