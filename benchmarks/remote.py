"""What a store costs: the same run with its outputs in a folder and in an S3 store on loopback.

    python benchmarks/remote.py [queries]

The endpoint (a scripted one that takes 50 ms to answer) and the store (moto) are processes of
their own; runs alternate, each with a cache and a mirror of its own. Needs the `dev` extra.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import s3_server

RECIPE = """
name: remote
model: {base_url: "%s", model: fake, concurrency: 16}
apis: {domains: 6, per_domain: 3}
queries: {count: %s}
shard_size: 8
"""
TOOLLOOM = [sys.executable, "-c", "from toolloom.cli import main; main()"]
ROUNDS = 3


def seconds(folder: Path, recipe: Path, outputs: str, environment: dict[str, str]) -> float:
    """How long a run takes, start of the process included."""
    folder.mkdir()
    words = ["run", recipe, "--engine", "local", "--cache", folder / "cache.sqlite", "-o", outputs]
    env = {**os.environ, **environment, "TOOLLOOM_MIRROR": str(folder / "mirror")}
    began = time.monotonic()
    subprocess.run([*TOOLLOOM, *words], env=env, check=True, capture_output=True)
    return time.monotonic() - began


def main(queries: int) -> None:
    fake = [sys.executable, "-m", "toolloom.llm.fake", "--port=0", "--latency=0.05"]
    with (
        tempfile.TemporaryDirectory() as name,
        s3_server.server() as store,
        subprocess.Popen(fake, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout
        room, bucket = Path(name), store.bucket()
        recipe = room / "remote.yaml"
        recipe.write_text(RECIPE % (process.stdout.readline().split()[-1], queries))
        ratios = []
        for number in range(ROUNDS):
            env = dict(store.environment)
            here = seconds(room / f"h{number}", recipe, str(room / f"h{number}" / "out"), env)
            there = seconds(room / f"t{number}", recipe, f"s3://{bucket}/{number}", env)
            objects = store.keys(bucket)
            size = sum(len(body) for key, body in objects.items() if key.startswith(f"{number}/"))
            ratios.append(there / here)
            print(
                f"folder {here:.1f} s, store {there:.1f} s: {there / here:.2f}; {size / 1e6:.1f} MB"
            )
        print(f"median ratio {sorted(ratios)[ROUNDS // 2]:.2f}")
        process.terminate()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
