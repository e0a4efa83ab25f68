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
# You can read each record, say whether it was rightly rejected, and see how often the checks are
# right.
#
# **Run it** with the menu *Run → Run All Cells*. No other knowledge of Python is needed: where a
# line can be changed, the text above it says how.

# %%
import os

from toolloom.pipeline.pages.inspection import open_dataset, show

# %% tags=["parameters"]
# What to open. Leave a text empty for the usual: the newest dataset, its newest version, your name.
OUTPUTS = ""  # the folder that `toolloom run` wrote into; empty: `outputs`
DATASET = ""  # such as "quickstart", or "quickstart/1.0.0"
CURATOR = ""  # the name that your marks are kept under

# %%
data = open_dataset(
    OUTPUTS or os.environ.get("TOOLLOOM_OUTPUTS", "outputs"),
    DATASET or os.environ.get("TOOLLOOM_DATASET", ""),
    CURATOR,
)
show(data, data.splits())

# %% [markdown]
# `rejected` counts every record that fell at any stage: domains and APIs (the split `apis`), then
# queries, dialogues, and what was made of them. `accepted` counts dialogues.
#
# ## What was rejected, and where
#
# `reason` is the code of the first thing that was wrong, `agent` the one whose work was rejected;
# an en dash (–) stands for none. In place of `reason` you can put `split`, `stage`, `agent`,
# `model`, `check`, `ability`, `scenario`, `category` or `prompt`.

# %%
show(data.plot("reason"), data.table("reason"))

# %%
show(data.plot("agent"), data.table("agent"))

# %% [markdown]
# The model is the one that wrote what was rejected. What needed no model has none.

# %%
show(data.plot("model"), data.table("model"))

# %% [markdown]
# The ability is known once a request is drawn: domains, APIs and rewritten instructions have none.

# %%
show(data.plot("ability"), data.table("ability"))

# %% [markdown]
# A record that needs APIs of two categories counts in both.

# %%
show(data.plot("category"), data.table("category"))

# %% [markdown]
# A prompt's version is the hash of its text. A record counts for each prompt that was used for it.
# Prompts whose text has changed since are called *earlier text*.

# %%
show(data.plot("prompt"), data.table("prompt"))

# %% [markdown]
# ## Over the versions of the dataset

# %%
show(data.plot_versions("reason"), data.versions("reason"))

# %%
show(data.plot_versions("agent"), data.versions("agent"))

# %% [markdown]
# ## Read the records
#
# On the left the rejected record: its finding stands at the turn it is about, and beside each call
# what the user means. On the right accepted dialogues that are most like it: what would have
# passed.
#
# *Agree* if it was rightly rejected, *disagree* if it is good and should have been accepted; a note
# can say why. Marks are kept at once, in `judgements.jsonl` beside the dataset. Records come in a
# mixed order, so that the first hundred are a fair sample.

# %%
viewer = data.viewer()
show(viewer)

# %% [markdown]
# ## How often are the rejections right?
#
# Precision: of the rejected records that were judged, how many are rightly rejected. `from` and
# `to` are the ends of the 95 % confidence interval (Wilson's): the fewer marks, the wider it is.
# API-Bank's authors looked through what their tester agent had filtered out, and found that 78 % of
# it «does not adhere to our design principles as intended»: the dashed line.
#
# Run these cells again after you have marked some.

# %%
print(data.against_api_bank())

# %%
show(data.plot_precision("agent"), data.precision(), data.precision("agent"))

# %% [markdown]
# The tester alone, by reason and by check.

# %%
show(data.plot_precision("reason", agent="tester"), data.precision("reason", agent="tester"))

# %%
show(data.plot_precision("check", agent="tester"), data.precision("check", agent="tester"))

# %% [markdown]
# All agents, by reason.

# %%
show(data.plot_precision("reason"), data.precision("reason"))

# %% [markdown]
# ## All records as a table
#
# A pandas table with one line for each record, to sort and filter as you like.

# %%
show(data.records().head(20))
