# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Why were samples rejected?
#
# This notebook opens a version of a dataset and shows what was rejected on the way to it, and why.
# You can read each record, mark whether it was rightly rejected, and see how often the checks are
# right. Run it with *Run → Run All Cells*.

# %%
import os

from toolloom.pipeline.pages.inspection import open_dataset, show

# %% tags=["parameters"]
# What to open. An empty text means the default: the newest dataset, its newest version, your name.
OUTPUTS = ""  # the folder that `toolloom run` wrote to; empty: `outputs`
DATASET = ""  # such as "quickstart" or "quickstart/1.0.0"
CURATOR = ""  # the name that your marks are kept under

# %%
data = open_dataset(
    OUTPUTS or os.environ.get("TOOLLOOM_OUTPUTS", "outputs"),
    DATASET or os.environ.get("TOOLLOOM_DATASET", ""),
    CURATOR,
)
print(f"{data.version.label}: {len(data.rows):,} records rejected")

# %% [markdown]
# ## What was rejected, and where
#
# `reason` is the code of the first thing that was wrong, `agent` the one whose work was rejected,
# `model` the model that wrote it; an en dash (–) stands for none. A record that needs APIs of two
# categories counts in both. A prompt's version is the hash of its text.

# %%
for column in ("reason", "agent", "model", "ability", "category", "prompt"):
    show(data.by(column))

# %% [markdown]
# ## Over the versions of the dataset

# %%
show(data.versions())

# %% [markdown]
# ## Read the records
#
# On the left is the rejected record: its finding stands at the turn it is about, and beside each
# call what the user means. On the right is the accepted dialogue that is most like it.
#
# *Agree* if it was rightly rejected, *disagree* if it is good and should have been accepted. Marks
# are kept at once, in `judgements.jsonl` beside the dataset. Records come in a fixed mixed order,
# so the first hundred are a fair sample.

# %%
show(data.viewer())

# %% [markdown]
# ## How often are the rejections right?
#
# Precision: the share of the judged records that were rightly rejected, with its 95 % confidence
# interval (Wilson's). API-Bank's authors found 78 % for their tester agent. Run these cells again
# after you have marked some.

# %%
for column in ("agent", "reason", "check"):
    show(data.precision(column))

# %% [markdown]
# ## All records as a table
#
# A pandas table with one line for each record, to sort and filter as you like.

# %%
show(data.rows.head(20))
