"""Pools of real APIs: imported, merged, filtered, counted, and taken by a run."""
