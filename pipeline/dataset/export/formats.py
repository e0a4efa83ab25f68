"""All formats, in one table."""

from __future__ import annotations

from toolloom.pipeline.dataset.export.shots import (
    SHOTS,
    AllShots,
    FewShots,
    all_shot,
    all_shot_notes,
    few_shot,
)
from toolloom.pipeline.formats.api_bank import api_bank
from toolloom.pipeline.formats.base import ExportFile, Format
from toolloom.pipeline.formats.chat import axolotl, axolotl_notes, openai, trl, verl
from toolloom.pipeline.formats.preferences import trl_dpo
from toolloom.pipeline.formats.sharegpt import dataset_info, hermes, llamafactory
from toolloom.pipeline.formats.toolbench import toolllama

LINES = {"sft": ExportFile("{split}.jsonl", "jsonl")}
ARRAY = {"sft": ExportFile("{split}.json", "json")}
_TALK = ("messages", "tools")
_LOAD_PARQUET = 'load_dataset("parquet", data_files="{folder}/{split}.parquet", split="train")'
_LOAD_LINES = 'load_dataset("json", data_files="{folder}/{split}.jsonl", split="train")'
_AXOLOTL = "The lines of {folder}/axolotl.yaml go into Axolotl's configuration."
_IN_TEXT = "the format writes calls as JSON within a text"
_CALLS = "the format writes calls as [name(key='value')]"

FORMATS: tuple[Format, ...] = (
    Format(
        "trl",
        trl,
        {"sft": ExportFile("{split}.parquet", "parquet", dict.fromkeys(_TALK, "objects"))},
        ("object", "string"),
        hint=f"SFTTrainer(train_dataset={_LOAD_PARQUET})",
    ),
    Format(
        "trl-dpo",
        trl_dpo,
        {
            "pairs": ExportFile(
                "{split}.parquet",
                "parquet",
                {
                    **dict.fromkeys(("prompt", "chosen", "rejected", "tools"), "objects"),
                    **dict.fromkeys(("defect", "reason"), "text"),
                },
            )
        },
        ("object", "string"),
        hint=f"DPOTrainer(train_dataset={_LOAD_PARQUET})",
    ),
    Format(
        "llamafactory",
        llamafactory,
        LINES,
        ("object",),
        why=_IN_TEXT,
        notes=dataset_info,
        hint="dataset_dir: {folder}\ndataset: {dataset}_{split}",
    ),
    Format(
        "axolotl",
        axolotl,
        LINES,
        ("string", "object"),
        notes=axolotl_notes,
        hint=_AXOLOTL,
    ),
    Format(
        "verl",
        verl,
        {
            "sft": ExportFile(
                "sft/{split}.parquet", "parquet", {"messages": "calling turns", "tools": "tools"}
            ),
            "rl": ExportFile(
                "rl/{split}.parquet",
                "parquet",
                {
                    "data_source": "text",
                    "prompt": "turns",
                    "ability": "text",
                    "reward_model": "reward",
                    "extra_info": "extra",
                },
            ),
        },
        ("string",),
        why="objects with different keys would be padded with nulls in verl's Parquet",
        hint="data.train_files={folder}/sft/{split}.parquet   (or rl/{split}.parquet)",
    ),
    Format(
        "openai",
        openai,
        LINES,
        ("string",),
        why="OpenAI takes arguments as text only",
        hint='client.files.create(file=open("{folder}/{split}.jsonl", "rb"), purpose="fine-tune")',
    ),
    Format(
        "hermes",
        hermes,
        LINES,
        ("object",),
        why=_IN_TEXT,
        hint=_LOAD_LINES,
    ),
    Format(
        "api-bank",
        api_bank,
        ARRAY,
        ("object",),
        why="the format writes calls as text of its own",
        hint='json.load(open("{folder}/{split}.json"))',
    ),
    Format(
        "toolllama",
        toolllama,
        ARRAY,
        ("object",),
        why=_IN_TEXT,
        hint="--data_path {folder}/{split}.json --conv_template tool-llama-single-round",
    ),
    Format(
        "few-shot",
        few_shot,
        LINES,
        ("object",),
        why=_CALLS,
        hint=f"SFTTrainer(train_dataset={_LOAD_LINES})",
        stateful=FewShots,
        shots=SHOTS,
    ),
    Format(
        "all-shot",
        all_shot,
        LINES,
        ("object",),
        why=_CALLS,
        notes=all_shot_notes,
        hint=_AXOLOTL,
        stateful=AllShots,
    ),
)
NAMES = tuple(one.name for one in FORMATS)


def format_named(name: str) -> Format:
    return FORMATS[NAMES.index(name)]
