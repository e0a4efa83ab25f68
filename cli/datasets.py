"""The commands about versions of a dataset: list, compare, verify, regenerate, export, push them.

`audit` is beside them: the checks of a version for data of others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from toolloom.cli.console import (
    FOUND,
    HERE,
    NOTHING_ACCEPTED,
    Dataset,
    JsonFile,
    Outputs,
    deliver,
    known,
    say,
    ticker,
)
from toolloom.cli.run import Name, NextOptions, extend, with_run_options
from toolloom.pipeline.store.secrets import SECRETS


@with_run_options
def regenerate(
    options: NextOptions,
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="The split, such as `test_tool`.")],
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="The dataset.")],
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the rows; draw new queries and add what they give.")
    ] = False,
) -> None:
    """Make one split again, or add rows to it, with the dataset's own APIs: its next version.

    The other splits are copied byte for byte, and nothing is paid for them. Run the same command
    again to continue after a stop. With --keep each command draws other queries and adds the rows
    that come of them. Exit code 1 if nothing was accepted: then there is no new version.

    Examples: `toolloom regenerate test_tool --dataset quickstart --seed 11`,
    `toolloom regenerate train --dataset quickstart --keep`
    """
    task = f"Growing {split} of {{version}}" if keep else f"Making {split} of {{version}} anew"
    advice = "Another --seed than {seed} asks anew."
    if keep and options.seed is None:
        advice = "The same command draws with the next seed now."
    extend(dataset, {"regenerate": {"split": split, "keep": keep}}, task, advice, options)


def versions(name: Name, outputs: Outputs = HERE) -> None:
    """List the versions of a dataset: what each was made from, its rows, its cost.

    Example: `toolloom versions quickstart`
    """
    from toolloom.pipeline.pages.sections import versions_section
    from toolloom.pipeline.store.version import find_version
    from toolloom.pipeline.store.version import versions as all_of

    latest = find_version(outputs, name)
    say([versions_section(all_of(latest.path.parent), latest.number)])


def diff(
    name: Name,
    before: Annotated[str, typer.Argument(metavar="V1", help="A version, such as 1.0.0.")],
    after: Annotated[str, typer.Argument(metavar="V2", help="Another, or `latest`.")] = "latest",
    n: Annotated[int, typer.Option("-n", min=0, help="Rows of each kind to print.")] = 1,
    json_file: JsonFile = None,
    outputs: Outputs = HERE,
) -> None:
    """Compare two versions of a dataset: rows added, removed and changed, and the figures.

    Rows are matched by id; rows whose ids differ, by their words and calls.

    Example: `toolloom diff quickstart 1.0.0 2.0.0 -n 2`
    """
    from toolloom.pipeline.dataset.diff import compare
    from toolloom.pipeline.pages.dialogue import examples_view
    from toolloom.pipeline.pages.sections import diff_sections
    from toolloom.pipeline.store.version import find_version

    made = compare(
        *(find_version(outputs, v if "/" in v else f"{name}/{v}") for v in (before, after)), keep=n
    )
    dumped = made.model_dump_json(indent=2)
    deliver(dumped, json_file, diff_sections(made), *examples_view(made.examples))


def verify(what: Dataset, json_file: JsonFile = None, outputs: Outputs = HERE) -> None:
    """Check a version again, offline: every byte, every row, its splits, parent and figures.

    Runs all certain checks over each dialogue. Exit code 1 if something is found, 2 if there is
    no such version, or another version of toolloom made it.

    Example: `toolloom verify quickstart`
    """
    from toolloom.pipeline.dataset.verify import verify as verified
    from toolloom.pipeline.pages.sections import verify_sections
    from toolloom.pipeline.store.version import find_folder

    cores, tell = os.cpu_count() or 1, ticker()
    report = verified(
        find_folder(outputs, what),
        lambda done, of: tell(f"{done:,} of {of:,} rows verified"),
        cores if cores > 1 else 0,
    )
    deliver(report.model_dump_json(indent=2), json_file, verify_sections(report))
    if not report.good:
        raise typer.Exit(FOUND)


def complexity(
    name: Dataset,
    test: Annotated[
        str | None,
        typer.Option(metavar="SPLIT", help="The split to test; without it a line for each."),
    ] = None,
    examples: Annotated[
        str, typer.Option(metavar="SPLIT", help="The split whose samples are the examples.")
    ] = "train",
    demonstrations: Annotated[
        bool,
        typer.Option(
            "--demonstrations", help="Use only a few examples, in which every API occurs."
        ),
    ] = False,
    n: Annotated[int, typer.Option("-n", min=0, help="Farthest combinations to print.")] = 5,
    json_file: JsonFile = None,
    outputs: Outputs = HERE,
) -> None:
    """Measure how hard it is to choose the calls of a split, given examples from another.

    The score S(T, X, D) is the mean distance to the nearest example, |e| ln 2 + |t - e| ln |D|, of
    multisets of APIs: calls that an example has cost ln 2 each, and others ln |D|. Beside it
    stands the reversed F1, 0 to 100.

    Example: `toolloom complexity shop --test test_tool --examples train`
    """
    from toolloom.pipeline.dataset.demonstrations import complexity as measured
    from toolloom.pipeline.pages.sections import complexity_sections
    from toolloom.pipeline.store.version import find_version

    version = find_version(outputs, name)
    report = measured(version, test, examples, demonstrations=demonstrations, keep=n)
    deliver(report.model_dump_json(indent=2), json_file, complexity_sections(report))


def export(
    name: Dataset,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="The trainer's format.")
    ],
    arguments: Annotated[
        Literal["object", "string"] | None,
        typer.Option(help="Arguments of calls as objects or as text, where there is a choice."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Only this split, instead of all.")
    ] = None,
    shots: Annotated[
        int | None,
        typer.Option(
            min=0, help="Demonstrations in a prompt, for formats that have some; 3 by default."
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE",
            help="Where to write, instead of `exports/<name>/<version>/<format>` in --outputs.",
        ),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Write a dataset in a trainer's format, and say what that format cannot hold.

    Formats: `trl`, `trl-dpo`, `llamafactory`, `axolotl`, `verl`, `openai`, `hermes`,
    `api-bank`, `toolllama`, `few-shot`, `all-shot`. Exit code 1 if no sample fits it.

    Examples: `toolloom export shop --format trl`,
    `toolloom export shop/1.0.0 --format openai --split train --into shop.jsonl`
    """
    from toolloom.pipeline.dataset.exporting import FORMATS
    from toolloom.pipeline.dataset.exporting import export as write
    from toolloom.pipeline.pages.sections import export_sections
    from toolloom.pipeline.render.section import counted
    from toolloom.pipeline.store.version import find_version

    known("--format", format_, [*FORMATS])
    version = find_version(outputs, name)
    place = into or outputs / "exports" / version.name / version.number / format_
    report = write(version, FORMATS[format_], place, arguments, split, shots)
    say(export_sections(report), "")
    say(
        f"{version.label} as {format_}: {report.held:,} of {counted(report.samples, 'sample')} "
        f"in {counted(report.rows, 'row')}."
    )
    for path in report.notes:
        say(f"Also written: {path}")
    if report.hint:
        say("", "For the trainer:", report.hint)
    if not report.rows:
        raise typer.Exit(NOTHING_ACCEPTED)


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON, JSON lines or Parquet, or a folder.")
    ],
    n: Annotated[int, typer.Option("-n", min=0, max=1000, help="Examples of each reason.")] = 3,
    json_file: JsonFile = None,
    flagged: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the flagged rows to this file, a JSON object a line."
        ),
    ] = None,
) -> None:
    """Check tool-use data from elsewhere with the certain checks, and count what is wrong.

    Rows are OpenAI's messages, ShareGPT's conversations or API-Bank's dialogues; the format is
    detected row by row. Exit code 1 if something is found, 2 if the file cannot be read.

    Example: `toolloom audit train.jsonl --flagged flagged.jsonl`
    """
    from toolloom.pipeline.formats import audit as audits

    tell = ticker()
    if json_file:
        audits.check_target(Path(json_file), file)
    report = audits.audit(
        file,
        examples=n,
        flagged=flagged,
        tell=lambda so_far: tell(f"{so_far.rows:,} rows, {so_far.flagged:,} with findings"),
    )
    deliver(audits.dumped(report.as_json(), indent=2), json_file, audits.sections(report))
    if report.flagged:
        raise typer.Exit(NOTHING_ACCEPTED)


def push(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")],
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="A version, such as 1.0.0, or latest.")
    ],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository on the Hub: owner/name.")],
    public: Annotated[
        bool, typer.Option("--public", help="Make the repository public if it is new.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Push a version of a dataset to the Hugging Face Hub: one commit, and a tag.

    The repository is created if there is none, private unless `--public` is given. Its main branch
    becomes this version; earlier ones stay under their tags. Run the same command again to continue
    a push that was interrupted. The token comes from HF_TOKEN or `hf auth login`.

    Example: `toolloom push quickstart latest me/quickstart`
    """
    from toolloom.pipeline.dataset import hub
    from toolloom.pipeline.store.version import find_version

    # Otherwise it asks the Hub, beside all else, by which programs it may be run.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    found = find_version(outputs, f"{name}/{version}")
    token = hub.login()
    SECRETS.learn([token])
    pushed = hub.push(found, repo, token, public=public)
    kind, commit = "private" if pushed.private else "public", pushed.commit[:12]
    say(f"{found.label} is at {pushed.url} ({kind}), tag {found.number}.")
    if pushed.committed:
        say(f"Commit {commit} holds its files.")
    elif pushed.tagged:
        say(f"The commit {commit} was there already; only its tag was missing.")
    else:
        say(f"The Hub already has it, as commit {commit}: nothing was sent.")
    say(pushed.load_line)


def sync(
    source: Annotated[str, typer.Argument(metavar="SRC", help="What to copy.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="Where to.")],
) -> None:
    """Copy a folder of outputs to an address such as s3://bucket/folder, or back.

    Copies files that are missing there, differ in size or are older; removes nothing. The response
    cache is not copied. Keys come from the environment; S3 needs `pip install 'toolloom[s3]'`.

    Examples: `toolloom sync outputs s3://bucket/toolloom`,
    `toolloom sync s3://bucket/toolloom/datasets/shop outputs/datasets/shop`
    """
    from toolloom.pipeline.store.sync import sync as copy

    done = copy(source, target)
    say(
        f"{done.copied:,} files copied ({done.bytes / 1e6:,.1f} MB), "
        f"{done.same:,} were there already."
    )
