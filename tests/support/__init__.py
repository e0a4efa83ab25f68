"""What tests build and start; nothing here is a test.

Records by hand: `toys` has the smallest of each kind, and stages that ask no model; `curation_rows`,
`finished_runs`, `growing_dataset`, `mined_dataset`, `expanded_dataset` and `hostile_dataset` build
on it. `foreign_rows`, `api_specs` and `template_files` are what others write,
`mutations` what is wrong with a dialogue, `tampered` what is wrong with a version.

Servers on the loopback: `shelf_server` (by way of `shelf`), `hub_server`, `s3_server`, `batch_server`, `prefect_loopback`; beside
them stand `processes` and `waiting`, which start commands and wait for what they do.
"""
