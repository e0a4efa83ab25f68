"""The dataset card: README.md with the YAML header that maps configs to files.

It is made of the manifest alone, so that it can be made again and compared; its words are those of
`card.md.j2`.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolloom.pipeline.dataset.configs import CONFIGS
from toolloom.pipeline.dataset.figures import LEVELS, added, instructions_of, ranked, worlds_told
from toolloom.pipeline.dataset.run_report import API_BANK, KINDS, Counts
from toolloom.pipeline.render.section import cell, counted, dollars, percent, table
from toolloom.schemas import JsonObject, Metric

SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
OPTIONAL = ("extended", "instructions", "worlds", "expansion")  # in a manifest


def card(manifest: JsonObject) -> str:
    """The text of README.md. Holds no time of day: equal versions make equal cards."""
    # One config without any files in the header, and `datasets` loads none of the others either.
    loadable = {
        name: found
        for name, splits in manifest["configs"].items()
        if (found := {split: table for split, table in splits.items() if table["files"]})
    }
    rows, licence = sum(told["rows"] for told in manifest["splits"].values()), _licence(manifest)
    instructions = instructions_of(manifest)
    size = rows or (instructions.levels.total() if instructions else 0)
    runs = manifest["runs"].values()
    text = _template().render(
        m={**dict.fromkeys(OPTIONAL), **manifest},
        header=_header(manifest, loadable, licence, size),
        rows=rows,
        dialogues={split: told for split, told in manifest["splits"].items() if told["rows"]},
        loadable=loadable,
        instructions=instructions,
        worlds=worlds_told(manifest),
        licence=licence,
        recipes=[run["recipe"] for run in runs],
        models=sorted({agent["model"] for run in runs for agent in run["agents"]} - {""}),
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _template() -> jinja2.Template:
    """Data are no template: they are given to one, in a sandbox."""
    made = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown: `cell` escapes
    )
    made.filters |= {"cell": cell, "n": "{:,}".format, "percent": percent, "dollars": dollars}
    made.filters |= {"counted": counted, "total": lambda counts: sum(counts.values())}
    made.globals |= {"added": added}
    made.globals |= {"summed": lambda counts: ranked(sum(map(Counter, counts), Counter()))}
    made.globals |= {"table": table, "counts_of": Counts.model_validate, "api_bank": API_BANK}
    made.globals |= {"kinds": KINDS, "levels": LEVELS}
    made.globals |= {"metrics": [*map(str, Metric)], "configs": CONFIGS}
    return made.get_template("card.md.j2")


def _header(manifest: JsonObject, loadable: JsonObject, licence: str, rows: int) -> str:
    # A version of digits that no other dataset has: `datasets` caches what it loads from a folder
    # under the folder's name, the config and this version alone. Without it, two datasets in
    # folders called `1.0.0` would be one to it.
    version = f"0.0.{int(manifest['content'][:12], 16)}"
    configs: list[JsonObject] = []
    for name, splits in loadable.items():
        files = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
        first = {} if configs else {"default": True}
        configs.append({"config_name": name, "version": version, "data_files": files, **first})
    header = {
        "pretty_name": manifest["name"],
        "license": licence,
        "task_categories": ["text-generation"],
        "tags": ["function-calling", "tool-use", "synthetic", "toolloom"],
        "size_categories": [next((s for n, s in SIZES if rows < n), "n>10M")],
        "configs": configs,
    }
    return yaml.safe_dump(header, sort_keys=False, allow_unicode=True)


def _licence(manifest: JsonObject) -> str:
    """That of the worlds, where all of it is theirs and no model wrote a word; else the terms of
    the models and APIs decide."""
    written = any(agent["model"] for run in manifest["runs"].values() for agent in run["agents"])
    sources = manifest["apis"]["sources"]
    licences = {source["licence"] if source["kind"] == "world" else "" for source in sources}
    if written or manifest.get("instructions") or len(licences) != 1:
        return "unknown"
    return licences.pop().lower() or "unknown"
